import React from 'react';
import { graphql } from 'gatsby';

export default ({ data }) => <main>{data.test.step}</main>;

export const query = graphql`
  query($id: String!, $isOdd: Boolean!, $step: Int!) {
    test(stepStr: { eq: $id }) {
      step
      text
    }
    allTest(filter: { isOdd: { eq: $isOdd }, step: { gte: $step } }, limit: 50) {
      nodes {
        step
      }
    }
  }
`;
