package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"slipway/hubapi"
	"slipway/internal/cli/render"
)

// poolOptions say what of the pool is printed, and how.
type poolOptions struct {
	json    bool
	format  string
	history time.Duration
}

// runPoolGPUs lists the GPUs of the site's HTCondor pool.
func runPoolGPUs(ctx context.Context, env Env, o poolOptions) error {
	switch {
	case o.format != "" && o.format != "classad":
		return usageError{fmt.Errorf("--format %s: --pool has classad only", o.format)}
	case o.history < 0 || o.history > 0 && o.format != "":
		return usageError{fmt.Errorf("--history %s: a time such as 24h, and without --format", o.history)}
	}
	client, err := connect(env)
	if err != nil {
		return err
	}
	if o.format != "" {
		text, err := client.PoolClassAds(ctx)
		if err == nil {
			_, err = fmt.Fprint(env.Stdout, text)
		}
		return err
	}
	all, err := client.PoolGPUs(ctx, o.history)
	if err != nil {
		return err
	}
	if o.json {
		return env.data(all)
	}
	return printPool(env, all, o.history)
}

// printPool prints what there is, what the service and the pool say of the service's own GPUs, and what there was.
func printPool(env Env, all hubapi.PoolGPUs, history time.Duration) error {
	var kinds, own [][]string
	for _, k := range all.Kinds {
		kinds = append(kinds, []string{
			orDash(k.Site), orDash(k.Model), k.Sharing, orDash(k.Capability), memoryOf(k.Memory), orDash(k.Driver),
			newestOf(k.Runtimes), fmt.Sprint(k.Free), fmt.Sprint(k.Used),
			fmt.Sprint(len(k.Hosts)),
		})
	}
	head := []string{"SITE", "MODEL", "SHARING", "CAPABILITY", "MEMORY", "DRIVER", "RUNTIMES", "FREE", "USED", "HOSTS"}
	if err := render.Table(env.Stdout, head, kinds, fmt.Sprintf("None of the pool's %d machines has a GPU.", all.Machines)); err != nil {
		return err
	}
	for _, o := range all.Own {
		own = append(own, []string{o.ID, o.Model, o.Ledger, o.Pool, o.Remark})
	}
	if len(own) > 0 {
		fmt.Fprintln(env.Stdout)
		if err := render.Table(env.Stdout, []string{"GPU OF THIS SERVICE", "MODEL", "HERE", "IN THE POOL", "REMARK"}, own, ""); err != nil {
			return err
		}
	}
	if history <= 0 {
		return nil
	}
	fmt.Fprintln(env.Stdout)
	return render.Table(
		env.Stdout, []string{"TIME", "SITE", "MODEL", "SHARING", "MEMORY", "FREE", "USED"}, pastRows(all.History),
		"Nothing was noted in that time.",
	)
}

// pastRows tells each scan, and of those that found the same as the one before only the first.
func pastRows(past []hubapi.PoolHistory) [][]string {
	var rows [][]string
	last := ""
	for _, h := range past {
		var found [][]string
		for _, k := range h.Kinds {
			found = append(found, []string{
				h.Taken.Local().Format(time.DateTime), orDash(k.Site), orDash(k.Model), k.Sharing, memoryOf(k.Memory),
				fmt.Sprint(k.Free), fmt.Sprint(k.Used),
			})
		}
		same := fmt.Sprint(h.Kinds)
		if same != last {
			rows = append(rows, found...)
		}
		last = same
	}
	return rows
}

// orDash returns what the ads tell; a dash where they do not.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func memoryOf(n int64) string {
	if n == 0 {
		return "-"
	}
	return memoryWords(&n)
}

// newestOf names the range of CUDA runtimes.
func newestOf(runtimes []string) string {
	switch len(runtimes) {
	case 0:
		return "-"
	case 1:
		return runtimes[0]
	}
	return strings.Join([]string{runtimes[0], runtimes[len(runtimes)-1]}, " to ")
}
