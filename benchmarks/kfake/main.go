// A kfake cluster of one broker with one topic, as a program: franz-go's fake of Kafka, to measure the dev broker beside.
//
//	kfake TOPIC PARTITIONS
//
// Its address is the only line on standard output; it ends when its standard input is closed.
package main

import (
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	partitions, err := strconv.Atoi(os.Args[2])
	if err != nil {
		panic(err)
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(int32(partitions), os.Args[1]))
	if err != nil {
		panic(err)
	}
	defer cluster.Close()
	fmt.Println(cluster.ListenAddrs()[0])
	io.Copy(io.Discard, os.Stdin)
}
