// Hivemem from TypeScript: a NATS client, JSON, and the types of all bodies. Node 22.18 or newer runs this file as it is.
//
// Install the client with `npm install @nats-io/transport-node`, start the fleet with `hivemem up`, then run this file.
// Set HIVEMEM_URL to use a server other than the local one.

import { randomUUID } from "node:crypto";
import { connect, headers, type NatsConnection } from "@nats-io/transport-node";
import type { Change, ErrorBody, HiveError, Operations, Reply, Request } from "../docs/types/hivemem.d.ts";

const URL = process.env["HIVEMEM_URL"] ?? "nats://127.0.0.1:4222";
const [TENANT, AGENT] = ["default", "plain"];

class Refused extends Error {
  readonly error: HiveError;

  constructor(error: HiveError) {
    super(`${error.name}: ${error.detail}`);
    this.error = error;
  }
}

// The name of the operation decides the types of the request and of the reply. The id makes it safe to send it again.
async function request<Name extends keyof Operations>(
  client: NatsConnection,
  operation: Name,
  body: Request<Name>,
): Promise<Reply<Name>> {
  const sent = headers();
  sent.set("Hive-Msg-Id", randomUUID());
  const subject = `hive.req.${TENANT}.${AGENT}.${operation}`;
  const answer = await client.request(subject, JSON.stringify(body), { timeout: 5_000, headers: sent });
  if (answer.headers?.has("Nats-Service-Error-Code")) {
    throw new Refused(answer.json<ErrorBody>().error);
  }
  return answer.json<Reply<Name>>();
}

// Answers go to inboxes of this agent only: a server can keep others from listening there.
const client = await connect({ servers: URL, inboxPrefix: `_INBOX_${TENANT}_${AGENT}` });
const changes = client.subscribe(`hive.live.${TENANT}.memory.user.bob.>`, { max: 1 });
await client.flush();

const key = randomUUID();
const written = await request(client, "memory.put", { namespace: "user:bob", key, value: { colour: "teal" } });
console.log(`memory ${written.key} is at version ${written.version}`);

for await (const message of changes) {
  const change = message.json<Change>();
  if (change.entity === "memory" && change.operation === "put") {
    console.log(`${change.actor} put ${change.value?.namespace}: ${JSON.stringify(change.value?.value)}`);
  }
}

try {
  await request(client, "memory.get", { namespace: "user:bob", key: "no such memory" });
} catch (refused) {
  if (!(refused instanceof Refused) || refused.error.code !== 40401) throw refused;
  console.log(`an error looks like this: ${refused.message}`);
}
await client.close();
console.log("done");
