// Copies a topic to another one, with the group's offsets in each transaction: franz-go's GroupTransactSession.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	if os.Args[2] == "group" {
		runGroup(strings.Split(os.Args[1], ","))
		return
	}
	wanted, err := strconv.Atoi(os.Args[2])
	check(err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(strings.Split(os.Args[1], ",")...),
		kgo.TransactionalID("franz-go"),
		kgo.ConsumerGroup("franz-go"),
		kgo.ConsumeTopics("in"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
		kgo.DefaultProduceTopic("out"),
	)
	check(err)
	defer session.Close()
	for turn, copied := 0, 0; copied < wanted; turn++ {
		fetches := session.PollRecords(ctx, 50)
		check(fetches.Err0())
		check(session.Begin())
		promise := kgo.AbortingFirstErrPromise(session.Client())
		count := 0
		fetches.EachRecord(func(record *kgo.Record) {
			count++
			session.Produce(ctx, &kgo.Record{Value: record.Value, Partition: record.Partition}, promise.Promise())
		})
		// Every third one is aborted, and its records are read again.
		committed, err := session.End(ctx, kgo.TransactionEndTry(promise.Err() == nil && turn%3 != 1))
		check(err)
		if committed {
			copied += count
		}
	}
}
