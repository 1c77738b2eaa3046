package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
)

// progressCommand is `slipway progress`.
func progressCommand(env Env) *cobra.Command {
	return &cobra.Command{
		Use: "progress DONE/OF [TEXT]", Short: "In a job: say how far it is, such as `progress 3/10 fitting`",
		Example: "  slipway progress 3/10 fitting",
		Long: "In a job: say how far it is. Whoever looks at the job sees DONE of OF, and TEXT beside it. DONE alone says that it is not known\n" +
			"of how much.",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{fmt.Errorf("%s needs DONE/OF, such as 3/10; see `%s --help`", c.CommandPath(), c.CommandPath())}
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			p, err := parseProgress(args[0], strings.Join(args[1:], " "))
			if err != nil {
				return err
			}
			return tellProgress(env.Getenv(control.ProgressEnv), p)
		},
	}
}

// mostCounted bounds what can be counted: whole numbers up to it are told apart.
const mostCounted = 1e15

func parseProgress(share, text string) (control.Progress, error) {
	done, of, more := strings.Cut(share, "/")
	p := control.Progress{Text: text}
	var err error
	if p.Done, err = strconv.ParseFloat(done, 64); err == nil && more {
		p.Of, err = strconv.ParseFloat(of, 64)
	}
	if err != nil || !(p.Done >= 0) || more && !(p.Of > 0) || p.Done+p.Of > mostCounted {
		return p, errs.Bad("DONE/OF", share, "two numbers, such as 3/10, or one")
	}
	return p.Sound(), nil
}

// tellProgress puts p where the job's agent looks.
func tellProgress(path string, p control.Progress) error {
	if path == "" {
		return errs.New(errs.Invalid, "this is no job: nobody looks at its progress").With("run it in a job: `slipway submit` starts one")
	}
	b, err := json.Marshal(p)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".progress-")
	if err != nil {
		return fmt.Errorf("say how far the job is: %w", err)
	}
	_, err = f.Write(b)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("say how far the job is: %w", err)
	}
	return nil
}
