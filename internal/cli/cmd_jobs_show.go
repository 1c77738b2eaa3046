package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"slipway/hubapi"
)

func runJobShow(ctx context.Context, env Env, id string, asJSON bool) error {
	client, err := connectForID(env, id)
	if err != nil {
		return err
	}
	if ofScan(id) {
		return showScan(ctx, env, client, id, asJSON)
	}
	j, err := client.Job(ctx, id)
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(env.Stdout, j)
	}
	return printPairs(env.Stdout, jobPairs(j))
}

func jobPairs(j hubapi.Job) [][2]string {
	pairs := append(pairsOf(j.Workload), [][2]string{
		{"state", jobState(j)}, {"environment", j.Environment}, {"session", j.Session}, {"command", commandWords(j.Argv)}, {"time limit", j.TimeLimit},
	}...)
	if j.Scan != "" {
		pairs = append(pairs, [2]string{"scan", j.Scan}, [2]string{"point", strconv.Itoa(j.Point)}, [2]string{"parameters", parameterWords(j)})
	}
	if j.Requeued > 0 {
		pairs = append(pairs, [2]string{"back in line", fmt.Sprintf("%dx", j.Requeued)})
	}
	return pairs
}

// commandWords tells a command; empty where it is not the caller's to read.
func commandWords(argv []string) string {
	if len(argv) == 0 {
		return ""
	}
	return fmt.Sprintf("%q", argv)
}

func showScan(ctx context.Context, env Env, client *hubapi.Client, id string, asJSON bool) error {
	list, err := client.Points(ctx, id)
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(env.Stdout, list)
	}
	for _, s := range list.Scans {
		if err := printPairs(env.Stdout, scanPairs(s)); err != nil {
			return err
		}
	}
	fmt.Fprintln(env.Stdout)
	return printPoints(env.Stdout, list.Jobs)
}

func scanPairs(s hubapi.Scan) [][2]string {
	return [][2]string{
		{"id", s.ID}, {"user", s.User}, {"name", s.Name}, {"backend", s.Backend}, {"environment", s.Environment},
		{"points", grouped(int64(s.Points)) + ": " + stateWords(s)}, {"waits", s.Waiting}, {"first failure", s.Failure},
	}
}

// printPoints prints the points of a scan with a column for each of its parameters.
func printPoints(w io.Writer, jobs []hubapi.Job) error {
	names := hubapi.ParameterNames(jobs)
	var rows [][]string
	for _, j := range jobs {
		row := []string{strconv.Itoa(j.Point)}
		for _, name := range names {
			row = append(row, j.Parameters[name])
		}
		rows = append(rows, append(row, jobState(j), exitOf(j), j.Host, j.ID, remark(j.Workload)))
	}
	head := append([]string{"POINT"}, names...)
	return printTable(w, append(head, "STATE", "EXIT", "HOST", "JOB", "REMARK"), rows, "No points are left.")
}
