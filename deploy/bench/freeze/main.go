package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"slipway/images"
	"slipway/images/records"
	"slipway/images/signing"
)

// options are the command line.
type options struct {
	container, dir string
	rounds         int
	baseline       bool
	again          bool
	apptainer      string
}

func main() {
	var o options
	flag.StringVar(&o.container, "container", "", "a running container with the changes")
	flag.StringVar(&o.dir, "dir", "", "an empty directory on the file system to measure")
	flag.IntVar(&o.rounds, "rounds", 5, "how often")
	flag.BoolVar(&o.baseline, "baseline", false, "run `apptainer build` from the engine once, which takes minutes")
	flag.BoolVar(&o.again, "again", false, "only freeze again what was frozen before")
	flag.StringVar(&o.apptainer, "apptainer", "apptainer", "program")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "freeze:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if o.container == "" || o.dir == "" {
		return errors.New("say -container and -dir")
	}
	b := &bench{options: o, table: &table{}}
	if err := b.open(ctx); err != nil {
		return err
	}
	defer b.library.Close()
	steps := []func(context.Context) error{
		b.prepare, b.freezes, b.again, b.unchanged, b.settles, b.copies, b.starts, b.pushes,
	}
	if o.again {
		steps = steps[:1]
		steps = append(steps, b.again)
	}
	if o.baseline {
		steps = append(steps, b.build)
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return b.table.write(os.Stdout)
}

// bench is one run.
type bench struct {
	options
	*table
	box      container
	library  *images.Library
	key      string              // names the session
	shares   bool                // the file system shares blocks between files
	idle     int64               // resident bytes between freezes
	last     records.Environment // what the last round made
	squashed string              // what mksquashfs made of the changes
}

func (b *bench) open(ctx context.Context) (err error) {
	if b.box, err = inspect(ctx, b.container); err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	keys, err := signing.New(signing.Config{Dir: b.path("keys"), Now: time.Now, Log: log, Site: "bench"})
	if err != nil {
		return err
	}
	b.squashed = b.path("change.sqfs")
	if b.shares, err = b.sharing(ctx); err != nil {
		return err
	}
	b.library, err = images.Open(images.Config{Dir: b.path("environments"), Logger: log, Keys: keys, Version: "bench"})
	return err
}

func (b *bench) path(parts ...string) string {
	return filepath.Join(append([]string{b.dir}, parts...)...)
}

// note tells how far the run has come.
func note(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
