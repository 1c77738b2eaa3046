package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"slipway/hubapi"
	"slipway/internal/cli/render"
	"slipway/internal/errs"
	"slipway/internal/units"
)

func envExportCommand(env Env, asJSON *bool) *cobra.Command {
	form, architecture := "", ""
	c := &cobra.Command{
		Use: "export REF --to sif|oci FILE", Short: "Write an environment to a file",
		Args: exactly(2, "an environment and a file"),
		Long: "Write an environment to a file here: sif is what Apptainer runs, signed; oci is a tar with an OCI image, for `docker load`,\n" +
			"`podman load` and registries. The file appears when it is whole. An OCI image takes the service seconds to minutes to make.\n" +
			"The environment's digest is what `slipway envs` shows; the file's is what `sha256sum FILE` gives.\n\n" + reference,
		Example: "  slipway envs export analysis:v1 --to oci analysis.tar && docker load < analysis.tar",
		RunE: func(c *cobra.Command, args []string) error {
			return runEnvExport(c.Context(), env, onArchitecture(args[0], architecture), form, args[1], *asJSON)
		},
	}
	c.Flags().StringVar(&form, "to", hubapi.ExportSIF, "sif or oci")
	architectureFlag(c, &architecture)
	return c
}

func runEnvExport(ctx context.Context, env Env, ref, form, path string, asJSON bool) error {
	if form != hubapi.ExportSIF && form != hubapi.ExportOCI {
		return usageError{fmt.Errorf("--to %q: sif or oci; see `slipway envs export --help`", form)}
	}
	client, err := connect(env)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return errs.New(errs.Invalid, "write %s: %w", path, err).
			With("name a file in a directory that you may write to")
	}
	done, err := export(ctx, env.Stderr, client, ref, form, f)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	if asJSON {
		return env.data(done)
	}
	return render.Pairs(env.Stdout, [][2]string{{"environment", done.Environment}, {"file", done.Digest}})
}

// export receives an environment's file, and tells now and then on w how far it has come.
func export(
	ctx context.Context, w io.Writer, client *hubapi.Client, ref, form string, to io.Writer,
) (done hubapi.Exported, err error) {
	start, out := time.Now(), &tally{to: to}
	err = telling(w, func() string { return "export: " + out.words(time.Since(start)) }, func() error {
		done, err = client.ExportEnvironment(ctx, ref, form, out)
		return err
	})
	if err == nil {
		fmt.Fprintf(w, "export: %s, %.1f s\n", units.DiskWords(done.Size), time.Since(start).Seconds())
	}
	return done, err
}

// telling says every two seconds how far something has come that tells nothing by itself.
func telling(w io.Writer, words func() string, work func() error) error {
	tick := time.NewTicker(stepEvery)
	defer tick.Stop()
	ended := make(chan error, 1)
	go func() { ended <- work() }()
	for {
		select {
		case err := <-ended:
			return err
		case <-tick.C:
			fmt.Fprintln(w, words())
		}
	}
}

// tally counts what is written to it while others look.
type tally struct {
	to io.Writer
	n  atomic.Int64
}

// Write passes on.
func (c *tally) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.n.Add(int64(n))
	return n, err
}

func (c *tally) words(since time.Duration) string {
	if n := c.n.Load(); n > 0 {
		return units.DiskWords(n) + " received"
	}
	return fmt.Sprintf("the service makes the file, %.0f s", since.Seconds())
}
