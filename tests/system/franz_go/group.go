// Ten members of a group; then five of them go, and then five others come. Each time records are written and read.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const partitions, batch = 12, 600

type member struct {
	client *kgo.Client
	owned  int
	done   chan struct{}
}

type group struct {
	servers []string
	mutex   sync.Mutex
	members []*member
	times   map[string]int
	read    int
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
		kgo.ConsumerGroup("franz-go"),
		kgo.ConsumeTopics("t"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.HeartbeatInterval(100*time.Millisecond),
		kgo.OnPartitionsAssigned(change(1)),
		kgo.OnPartitionsRevoked(change(-1)),
		kgo.OnPartitionsLost(change(-1)),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
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
	first := g.read
	for number := first; number < first+batch; number++ {
		g.members[0].client.Produce(context.Background(), &kgo.Record{
			Topic: "t", Partition: int32(number % partitions), Value: []byte(strconv.Itoa(number)),
		}, nil)
	}
	check(g.members[0].client.Flush(context.Background()))
	g.wait("read", func() bool { return g.read >= first+batch })
}

func runGroup(servers []string) {
	g := &group{servers: servers, times: map[string]int{}}
	for phase, change := range []func(){
		func() {
			for i := 0; i < 10; i++ {
				g.join()
			}
		},
		func() { g.leave(5) },
		func() {
			for i := 0; i < 5; i++ {
				g.join()
			}
		},
	} {
		change()
		g.readSome()
		fmt.Fprintln(os.Stderr, "phase", phase, "read", g.read)
	}
	g.leave(10)
	fmt.Println(len(g.times), g.read)
}
