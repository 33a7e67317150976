// Compiles every schema with Ajv in its strict mode, and prints the cases in which Ajv and the expectation differ.
// Arguments: the folder of the schemas, and a file of cases, each `[schema, body, whether it is valid]`.
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import addFormats from "ajv-formats";
import { Ajv2020 } from "ajv/dist/2020.js";

const [folder, cases] = process.argv.slice(2);
const ajv = new Ajv2020({ strict: true, strictTypes: true, strictTuples: true, strictRequired: true });
addFormats.default(ajv);
const validators = {};
for (const file of readdirSync(folder)) {
  validators[file] = ajv.compile(JSON.parse(readFileSync(join(folder, file), "utf8")));
}
const wrong = [];
for (const [schema, body, valid] of JSON.parse(readFileSync(cases, "utf8"))) {
  if (validators[schema](body) !== valid) {
    wrong.push([schema, body, validators[schema].errors]);
  }
}
console.log(JSON.stringify(wrong));
