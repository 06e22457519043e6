// Loads documents into the document API as a bulk loader does: SCHOOLS documents, then STUDENTS that refer to two of them each, over
// 100 connections with at most 500 requests in flight. What is refused for too many conflicts is sent again until it is stored.
//
//   node bulk-load.js URL STUDENTS
"use strict";

const http = require("node:http");

const [url, students] = [process.argv[2], Number(process.argv[3])];
const [SCHOOLS, CONNECTIONS, IN_FLIGHT] = [20, 100, 500];
const agent = new http.Agent({ keepAlive: true, maxSockets: CONNECTIONS });

function post(document) {
  const body = JSON.stringify(document);
  const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
  return new Promise((resolve, reject) => {
    const request = http.request(`${url}/documents`, { agent, method: "POST", headers }, (answer) => {
      answer.resume().on("end", () => resolve(answer.statusCode)).on("error", reject);
    });
    request.on("error", reject).end(body);
  });
}

async function load(count, document) {
  let [next, again] = [0, 0];
  const loader = async () => {
    while (next < count) {
      const one = document(next++);
      let status;
      while ((status = await post(one)) === 503) again += 1;
      if (status !== 201) throw new Error(`status ${status} for ${one.id}`);
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, loader));
  return again;
}

(async () => {
  await load(SCHOOLS, (number) => ({ id: `school-${number}`, references: [] }));
  const again = await load(students, (number) => ({
    id: `student-${number}`,
    references: [`school-${number % SCHOOLS}`, `school-${(number * 7 + 3) % SCHOOLS}`],
    text: `${number} `.repeat(100),
  }));
  console.log(`${students} stored, ${again} sent again`);
  process.exit(0);
})().catch((error) => {
  console.error(error.message);
  process.exit(1);
});
