import React from 'react';
import { graphql } from 'gatsby';

export default ({ data }) => <main>{data.test.step}</main>;

export const query = graphql`
  query($id: String!) {
    test(stepStr: { eq: $id }) {
      step
      text
    }
  }
`;
