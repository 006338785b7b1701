//! rdkafka: administers a topic, and ten members of a group that come and go, commit and resume. One line of JSON.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::{sleep, spawn, JoinHandle};
use std::time::{Duration, Instant};

use futures_executor::block_on;
use rdkafka::admin::{AdminClient, AdminOptions, AlterConfig, NewPartitions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::message::{Header, Message, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};

const TOPIC: &str = "t";
const GROUP: &str = "rdkafka";
const PARTITIONS: usize = 12;
const BATCH: usize = 600;
const MORE: usize = 24;
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Tally {
    times: Mutex<HashMap<String, usize>>,
    read: AtomicUsize,
    committed: AtomicUsize,
}

struct Member {
    owned: Arc<AtomicUsize>,
    leaving: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

struct Group {
    servers: String,
    protocol: String,
    tally: Arc<Tally>,
    members: Vec<Member>,
    producer: BaseProducer,
}

fn config(servers: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", servers);
    config
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "not {what} after a minute");
        sleep(Duration::from_millis(10));
    }
}

impl Group {
    fn consumer(&self) -> BaseConsumer {
        let mut config = config(&self.servers);
        config
            .set("group.id", GROUP)
            .set("group.protocol", &self.protocol)
            .set("auto.offset.reset", "earliest")
            .set("enable.auto.commit", "false");
        if self.protocol == "classic" {
            config.set("heartbeat.interval.ms", "100").set("partition.assignment.strategy", "cooperative-sticky");
        }
        config.create().expect("a consumer")
    }

    fn join(&mut self, count: usize) {
        for _ in 0..count {
            let consumer = self.consumer();
            consumer.subscribe(&[TOPIC]).expect("a subscription");
            let (owned, leaving) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
            let (tally, mine, is_leaving) = (self.tally.clone(), owned.clone(), leaving.clone());
            let thread = spawn(move || {
                while !is_leaving.load(SeqCst) {
                    if let Some(message) = consumer.poll(Duration::from_millis(20)) {
                        let message = message.expect("a record");
                        let value = String::from_utf8(message.payload().expect("a value").to_vec()).expect("UTF-8");
                        *tally.times.lock().unwrap().entry(value).or_default() += 1;
                        tally.read.fetch_add(1, SeqCst);
                        consumer.commit_message(&message, CommitMode::Sync).expect("a commit");
                        tally.committed.fetch_add(1, SeqCst);
                    }
                    mine.store(consumer.assignment().expect("an assignment").count(), SeqCst);
                }
            });
            self.members.push(Member { owned, leaving, thread });
        }
    }

    fn leave(&mut self, count: usize) {
        let gone: Vec<Member> = self.members.drain(..count).collect();
        gone.iter().for_each(|each| each.leaving.store(true, SeqCst));
        gone.into_iter().for_each(|each| each.thread.join().expect("a member without an error"));
    }

    fn read(&self) -> usize {
        self.tally.committed.load(SeqCst).min(self.tally.read.load(SeqCst))
    }

    fn write(&self, count: usize) {
        let first = self.tally.read.load(SeqCst);
        for number in first..first + count {
            let (key, value) = (format!("k{number}"), number.to_string());
            let headers = OwnedHeaders::new().insert(Header { key: "n", value: Some("1") });
            let record = BaseRecord::to(TOPIC).partition((number % PARTITIONS) as i32).headers(headers);
            self.producer.send(record.key(&key).payload(&value)).map_err(|(error, _)| error).expect("room");
        }
        self.producer.flush(PATIENCE).expect("delivered records");
    }

    fn read_some(&self) {
        until("shared", || {
            let owned: Vec<usize> = self.members.iter().map(|each| each.owned.load(SeqCst)).collect();
            owned.iter().sum::<usize>() == PARTITIONS && owned.iter().all(|each| *each > 0)
        });
        let wanted = self.read() + BATCH;
        self.write(BATCH);
        until("read", || self.read() >= wanted);
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let servers = &arguments[1];
    let admin: AdminClient<DefaultClientContext> = config(servers).create().expect("an admin client");
    let options = AdminOptions::new().operation_timeout(Some(PATIENCE));
    let topic = NewTopic::new(TOPIC, 5, TopicReplication::Fixed(1));
    block_on(admin.create_topics(&[topic], &options)).expect("an answer")[0].as_ref().expect("a topic");
    let more = NewPartitions::new(TOPIC, PARTITIONS);
    block_on(admin.create_partitions(&[more], &options)).expect("an answer")[0].as_ref().expect("partitions");
    let change = AlterConfig::new(ResourceSpecifier::Topic(TOPIC)).set("retention.ms", "1234567");
    block_on(admin.alter_configs(&[change], &options)).expect("an answer")[0].as_ref().expect("an option");
    let configs = block_on(admin.describe_configs(&[ResourceSpecifier::Topic(TOPIC)], &options)).expect("an answer");
    let retention = configs[0].as_ref().expect("options").get("retention.ms").expect("the option").value.clone();

    let mut group = Group {
        servers: servers.clone(),
        protocol: arguments[2].clone(),
        tally: Arc::default(),
        members: Vec::new(),
        producer: config(servers).set("enable.idempotence", "true").create().expect("a producer"),
    };
    group.join(10);
    group.read_some();
    group.leave(5);
    group.read_some();
    group.join(5);
    group.read_some();
    let client = admin.inner();
    let listed = client.fetch_group_list(Some(GROUP), PATIENCE).expect("groups");
    let described: Vec<(String, usize)> =
        listed.groups().iter().map(|each| (each.state().to_string(), each.members().len())).collect();
    group.leave(10);

    // A member that comes later reads on, and nothing twice.
    let before = group.read();
    group.write(MORE);
    group.join(1);
    until("resumed", || group.read() >= before + MORE);
    group.leave(1);
    let mut places = TopicPartitionList::new();
    (0..PARTITIONS).for_each(|each| {
        places.add_partition(TOPIC, each as i32);
    });
    let committed = group.consumer().committed_offsets(places, PATIENCE).expect("offsets");
    let offsets = committed.elements().into_iter().map(|each| match each.offset() {
        Offset::Offset(offset) => offset,
        other => panic!("{other:?}"),
    });
    let sum: i64 = offsets.sum();
    block_on(admin.delete_groups(&[GROUP], &options)).expect("an answer")[0].as_ref().expect("no group");
    let partitions = client.fetch_metadata(Some(TOPIC), PATIENCE).expect("metadata").topics()[0].partitions().len();
    block_on(admin.delete_topics(&[TOPIC], &options)).expect("an answer")[0].as_ref().expect("no topic");
    let left = client.fetch_metadata(None, PATIENCE).expect("metadata");
    let topics: Vec<&str> = left.topics().iter().map(|each| each.name()).collect();
    let said = serde_json::json!({
        "partitions": partitions,
        "retention": retention,
        "distinct": group.tally.times.lock().unwrap().len(),
        "read": group.tally.read.load(SeqCst),
        "resumed": group.read() - before,
        "committed": sum,
        "group": described.first(),
        "groups": listed.groups().iter().map(|each| each.name()).collect::<Vec<_>>(),
        "topics": topics,
    });
    println!("{said}");
}
