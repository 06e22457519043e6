// NODES nodes, small or with TEXT bytes of text each; as many pages where TEST names a template of queries.
const path = require('path');

const count = Number(process.env.NODES);
const bytes = Number(process.env.TEXT || 0);
const chunk = Number(process.env.CHUNK || 10000);
const pause = Number(process.env.PAUSE || 0);
const test = process.env.TEST;

const words = Buffer.from('sed ut perspiciatis unde omnis iste natus error sit voluptatem '.repeat(1 + bytes / 32), 'latin1');

// Text that no two nodes share in memory.
const textOf = (step) => (bytes ? words.toString('latin1', step % 60, (step % 60) + bytes) : `text ${step}`);

exports.sourceNodes = async ({ actions: { createNode } }) => {
  for (let step = 0; step < count; step += 1) {
    const node = { id: `/path/${step}/`, step, internal: { type: 'Test', contentDigest: String(step) } };
    if (bytes || test) node.text = textOf(step);
    if (test) Object.assign(node, { stepStr: String(step), isOdd: step % 2 === 1 });
    createNode(node);
    if (step % chunk === chunk - 1) await new Promise((resolve) => setTimeout(resolve, pause));
  }
};

exports.createPages = async ({ actions: { createPage } }) => {
  if (!test) return;
  const component = path.resolve(`src/templates/${test}.js`);
  for (let step = 0; step < count; step += 1) {
    const context = { id: String(step), isOdd: step % 2 === 1, step };
    createPage({ path: `/path/${step}/`, component, context });
    if (step % 10000 === 9999) await new Promise((resolve) => setTimeout(resolve, 0));
  }
};
