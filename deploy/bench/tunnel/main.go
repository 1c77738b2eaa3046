// Program tunnel measures the link of an agent on another host against a bare connection with TLS between the same two
// processes, in turns: how much goes through, how long a byte takes there and back, what a link costs that does
// nothing. It prints Markdown tables. What it must not do: leave this machine, or measure one path with other code at
// its ends than the other.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"slipway/deploy/bench/figures"
)

// options are the command line.
type options struct {
	rounds, links int
	bytes         int64
}

func main() {
	o := options{}
	flag.IntVar(&o.rounds, "rounds", 5, "how often each path is measured")
	flag.IntVar(&o.links, "links", 200, "links that do nothing, for the memory of each")
	flag.Int64Var(&o.bytes, "bytes", 1<<30, "of one transfer")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := error(nil)
	if flag.Arg(0) == far {
		err = runFar(ctx, os.Stdin, os.Stdout)
	} else {
		err = run(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "tunnel:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	fmt.Println(figures.Machine("tunnel") + "\n")
	if err := paths(ctx, o); err != nil {
		return err
	}
	if err := memory(ctx, o); err != nil {
		return err
	}
	return restarts(ctx, o)
}
