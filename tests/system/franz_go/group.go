// Ten members of a group; then five of them go, and then five others come. Each time records are written and read. All
// go then, and one that comes later resumes. Before and after it administers; it prints one line of JSON.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const topic, groupID, partitions, batch, more = "t", "franz-go", 12, 600, 24

type member struct {
	client *kgo.Client
	owned  int
	done   chan struct{}
}

type group struct {
	servers  []string
	producer *kgo.Client
	mutex    sync.Mutex
	members  []*member
	times    map[string]int
	read     int
	// A client that is closed while it commits says that its broker has died.
	committed int
}

func (g *group) join() {
	m := &member{done: make(chan struct{})}
	change := func(sign int) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, changed map[string][]int32) {
			g.mutex.Lock()
			defer g.mutex.Unlock()
			for _, numbers := range changed {
				m.owned += sign * len(numbers)
			}
		}
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(g.servers...),
		kgo.ConsumerGroup(groupID),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.HeartbeatInterval(100*time.Millisecond),
		kgo.OnPartitionsAssigned(change(1)),
		kgo.OnPartitionsRevoked(change(-1)),
		kgo.OnPartitionsLost(change(-1)),
	)
	check(err)
	m.client = client
	g.members = append(g.members, m)
	go func() {
		defer close(m.done)
		for {
			fetches := client.PollRecords(context.Background(), 100)
			if fetches.IsClientClosed() {
				return
			}
			check(fetches.Err())
			g.mutex.Lock()
			fetches.EachRecord(func(record *kgo.Record) {
				g.times[string(record.Value)]++
				g.read++
			})
			g.mutex.Unlock()
			check(client.CommitUncommittedOffsets(context.Background()))
			g.mutex.Lock()
			g.committed += fetches.NumRecords()
			g.mutex.Unlock()
			client.AllowRebalance()
		}
	}()
}

func (g *group) leave(count int) {
	for _, m := range g.members[:count] {
		m.client.CloseAllowingRebalance()
		<-m.done
	}
	g.members = g.members[count:]
}

func (g *group) wait(what string, isSo func() bool) {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		g.mutex.Lock()
		now := isSo()
		g.mutex.Unlock()
		if now {
			return
		}
		if time.Now().After(deadline) {
			check(fmt.Errorf("not %s after a minute: %d read", what, g.read))
		}
	}
}

func (g *group) readSome() {
	g.wait("shared", func() bool {
		sum, idle := 0, false
		for _, m := range g.members {
			sum += m.owned
			idle = idle || m.owned == 0
		}
		return sum == partitions && !idle
	})
	g.write(batch)
}

func (g *group) write(count int) {
	first := g.read
	for number := first; number < first+count; number++ {
		g.producer.Produce(context.Background(), &kgo.Record{
			Topic: topic, Partition: int32(number % partitions), Value: []byte(strconv.Itoa(number)),
			Headers: []kgo.RecordHeader{{Key: "n", Value: []byte("1")}},
		}, nil)
	}
	check(g.producer.Flush(context.Background()))
	g.wait("read", func() bool { return g.committed >= first+count })
}

// One answer to one request; franz-go finds the node that has it.
func ask[T kmsg.Response](client *kgo.Client, request kmsg.Request) T {
	answer, err := client.Request(context.Background(), request)
	check(err)
	return answer.(T)
}

func checkCode(code int16) {
	check(kerr.ErrorForCode(code))
}

func createTopic(client *kgo.Client) {
	created := kmsg.NewPtrCreateTopicsRequest()
	wanted := kmsg.NewCreateTopicsRequestTopic()
	wanted.Topic, wanted.NumPartitions, wanted.ReplicationFactor = topic, 5, 1
	created.Topics = append(created.Topics, wanted)
	checkCode(ask[*kmsg.CreateTopicsResponse](client, created).Topics[0].ErrorCode)

	grown := kmsg.NewPtrCreatePartitionsRequest()
	more := kmsg.NewCreatePartitionsRequestTopic()
	more.Topic, more.Count = topic, partitions
	grown.Topics = append(grown.Topics, more)
	checkCode(ask[*kmsg.CreatePartitionsResponse](client, grown).Topics[0].ErrorCode)

	altered := kmsg.NewPtrIncrementalAlterConfigsRequest()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	change := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	change.Name, change.Value = "retention.ms", kmsg.StringPtr("1234567")
	resource.Configs = append(resource.Configs, change)
	altered.Resources = append(altered.Resources, resource)
	checkCode(ask[*kmsg.IncrementalAlterConfigsResponse](client, altered).Resources[0].ErrorCode)
}

func retention(client *kgo.Client) string {
	described := kmsg.NewPtrDescribeConfigsRequest()
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	resource.ConfigNames = []string{"retention.ms"}
	described.Resources = append(described.Resources, resource)
	answer := ask[*kmsg.DescribeConfigsResponse](client, described).Resources[0]
	checkCode(answer.ErrorCode)
	return *answer.Configs[0].Value
}

func topicNames(client *kgo.Client) (names []string, partitions int) {
	wanted := kmsg.NewPtrMetadataRequest()
	for _, each := range ask[*kmsg.MetadataResponse](client, wanted).Topics {
		names = append(names, *each.Topic)
		partitions = len(each.Partitions)
	}
	return names, partitions
}

func committed(client *kgo.Client) (sum int64) {
	wanted := kmsg.NewPtrOffsetFetchRequest()
	one := kmsg.NewOffsetFetchRequestGroup()
	one.Group = groupID
	wanted.Groups, wanted.Group = append(wanted.Groups, one), groupID
	answer := ask[*kmsg.OffsetFetchResponse](client, wanted).Groups[0]
	checkCode(answer.ErrorCode)
	for _, each := range answer.Topics {
		for _, partition := range each.Partitions {
			sum += partition.Offset
		}
	}
	return sum
}

func runGroup(servers []string) {
	client, err := kgo.NewClient(kgo.SeedBrokers(servers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	check(err)
	createTopic(client)
	g := &group{servers: servers, producer: client, times: map[string]int{}}
	said := map[string]any{"retention": retention(client)}
	for i := 0; i < 10; i++ {
		g.join()
	}
	g.readSome()
	g.leave(5)
	g.readSome()
	for i := 0; i < 5; i++ {
		g.join()
	}
	g.readSome()
	described := kmsg.NewPtrDescribeGroupsRequest()
	described.Groups = []string{groupID}
	one := ask[*kmsg.DescribeGroupsResponse](client, described).Groups[0]
	said["group"] = []any{one.State, len(one.Members)}
	g.leave(10)

	// A member that comes later reads on, and nothing twice.
	before := g.read
	g.join()
	g.write(more)
	g.leave(1)
	said["distinct"], said["read"], said["resumed"] = len(g.times), g.read, g.read-before
	said["committed"] = committed(client)
	groups := []string{}
	for _, shard := range client.RequestSharded(context.Background(), kmsg.NewPtrListGroupsRequest()) {
		check(shard.Err)
		for _, each := range shard.Resp.(*kmsg.ListGroupsResponse).Groups {
			groups = append(groups, each.Group)
		}
	}
	said["groups"] = groups
	deleted := kmsg.NewPtrDeleteGroupsRequest()
	deleted.Groups = []string{groupID}
	checkCode(ask[*kmsg.DeleteGroupsResponse](client, deleted).Groups[0].ErrorCode)
	_, said["partitions"] = topicNames(client)
	gone := kmsg.NewPtrDeleteTopicsRequest()
	wanted := kmsg.NewDeleteTopicsRequestTopic()
	wanted.Topic = kmsg.StringPtr(topic)
	gone.TopicNames, gone.Topics = []string{topic}, append(gone.Topics, wanted)
	checkCode(ask[*kmsg.DeleteTopicsResponse](client, gone).Topics[0].ErrorCode)
	names, _ := topicNames(client)
	said["topics"] = append([]string{}, names...)
	client.Close()
	line, err := json.Marshal(said)
	check(err)
	fmt.Println(string(line))
}
