// Writes the types that json-schema-to-typescript derives from each schema of one folder into another folder.
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { compileFromFile } from "json-schema-to-typescript";

const [schemas, types] = process.argv.slice(2);
for (const file of readdirSync(schemas)) {
  const text = await compileFromFile(join(schemas, file), { format: false });
  writeFileSync(join(types, file.replace(/\.json$/, ".ts")), text);
}
