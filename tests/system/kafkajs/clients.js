// kafkajs: administers a topic, and ten members of a group that come and go, commit and resume. One line of JSON.
"use strict";

const { Kafka, logLevel } = require("kafkajs");

const TOPIC = "t", GROUP = "kafkajs", PARTITIONS = 12, BATCH = 600, MORE = 24;

const kafka = new Kafka({ brokers: process.argv[2].split(","), logLevel: logLevel.NOTHING, retry: { initialRetryTime: 50 } });
const times = new Map();
const members = [];
let read = 0, committed = 0, failure = null;

async function until(what, isSo) {
  for (const end = Date.now() + 60_000; !isSo(); await new Promise((done) => setTimeout(done, 10))) {
    if (failure) throw failure;
    if (Date.now() > end) throw new Error(`not ${what} after a minute: ${read} read, ${members.map((each) => each.owned)}`);
  }
}

async function join(count) {
  const joined = Array.from({ length: count }, async () => {
    const consumer = kafka.consumer({ groupId: GROUP, heartbeatInterval: 100, maxWaitTimeInMs: 50, retry: { initialRetryTime: 50 } });
    const member = { consumer, owned: 0 };
    members.push(member);
    consumer.on(consumer.events.GROUP_JOIN, (event) => {
      member.owned = (event.payload.memberAssignment[TOPIC] || []).length;
    });
    consumer.on(consumer.events.CRASH, (event) => {
      failure = event.payload.error;
    });
    await consumer.connect();
    await consumer.subscribe({ topics: [TOPIC], fromBeginning: true });
    await consumer.run({
      autoCommit: false,
      eachBatch: async ({ batch }) => {
        for (const message of batch.messages) {
          const value = message.value.toString();
          times.set(value, (times.get(value) || 0) + 1);
          read += 1;
        }
        const offset = String(Number(batch.lastOffset()) + 1);
        await consumer.commitOffsets([{ topic: TOPIC, partition: batch.partition, offset }]);
        committed += batch.messages.length;
      },
    });
  });
  await Promise.all(joined);
}

async function leave(count) {
  await Promise.all(members.splice(0, count).map((each) => each.consumer.disconnect()));
}

async function write(producer, count) {
  const messages = Array.from({ length: count }, (_, number) => ({
    value: String(read + number), key: `k${number}`, partition: (read + number) % PARTITIONS, headers: { n: "1" },
  }));
  await producer.send({ topic: TOPIC, messages, acks: -1 });
}

async function readSome(producer, count = BATCH) {
  await until("shared", () => members.every((each) => each.owned > 0)
    && members.reduce((sum, each) => sum + each.owned, 0) === PARTITIONS);
  const wanted = read + count;
  await write(producer, count);
  await until("read", () => read >= wanted && committed >= wanted);
}

async function main() {
  const admin = kafka.admin();
  await admin.connect();
  await admin.createTopics({ topics: [{ topic: TOPIC, numPartitions: 5, replicationFactor: 1 }] });
  await admin.createPartitions({ topicPartitions: [{ topic: TOPIC, count: PARTITIONS }] });
  const resource = { type: 2, name: TOPIC };
  await admin.alterConfigs({ resources: [{ ...resource, configEntries: [{ name: "retention.ms", value: "1234567" }] }] });
  const configs = await admin.describeConfigs({ resources: [{ ...resource, configNames: ["retention.ms"] }] });

  const producer = kafka.producer({ idempotent: true });
  await producer.connect();
  await join(10);
  await readSome(producer);
  await leave(5);
  await readSome(producer);
  await join(5);
  await readSome(producer);
  const described = (await admin.describeGroups([GROUP])).groups[0];
  await leave(10);

  // A member that comes later reads on, and nothing twice.
  const before = read;
  await write(producer, MORE);
  await join(1);
  await until("resumed", () => committed >= before + MORE);
  await leave(1);
  const offsets = (await admin.fetchOffsets({ groupId: GROUP, topics: [TOPIC] }))[0].partitions;
  const groups = (await admin.listGroups()).groups.map((each) => each.groupId);
  await admin.deleteGroups([GROUP]);
  const partitions = (await admin.fetchTopicMetadata({ topics: [TOPIC] })).topics[0].partitions.length;
  await admin.deleteTopics({ topics: [TOPIC] });
  console.log(JSON.stringify({
    partitions,
    retention: configs.resources[0].configEntries[0].configValue,
    distinct: times.size,
    read,
    resumed: read - before,
    committed: offsets.reduce((sum, each) => sum + Number(each.offset), 0),
    group: [described.state, described.members.length],
    groups,
    topics: await admin.listTopics(),
  }));
  await producer.disconnect();
  await admin.disconnect();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
