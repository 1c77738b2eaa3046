package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"slipway/hubapi"
)

func runKernelSpecs(ctx context.Context, env Env, asJSON bool) error {
	client, err := connect(env)
	if err != nil {
		return err
	}
	list, err := client.KernelSpecs(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(env.Stdout, hubapi.KernelSpecs{KernelSpecs: list})
	}
	var rows [][]string
	head := []string{"NAME", "KERNEL", "GPU", "CPUS", "MEMORY", "NOW", "CAN SWITCH TO"}
	told := slices.ContainsFunc(list, func(k hubapi.KernelSpec) bool { return k.Standbys != nil })
	if told {
		head = append(head, "STAND BY")
	}
	for _, k := range list {
		more := slices.DeleteFunc(slices.Clone(k.GPUs), func(g string) bool { return g == k.GPU })
		row := []string{k.Name, k.DisplayName, k.GPU, fmt.Sprint(k.CPUs), k.Memory, k.Available.Words, strings.Join(more, " ")}
		if told {
			row = append(row, standbyWords(k.Standbys))
		}
		rows = append(rows, row)
	}
	return printTable(env.Stdout, head, rows, "There is no kernel for you: ask your administrator for one.")
}

// standbyWords says to an administrator what stands by of a kernelspec's entry, and why not more.
func standbyWords(s *hubapi.KernelStandbys) string {
	switch {
	case s == nil:
		return ""
	case s.Lacking == 0:
		return fmt.Sprintf("%d of %d", s.Ready, s.Most)
	}
	return fmt.Sprintf("%d of %d, %d lacking: %s", s.Ready, s.Most, s.Lacking, s.Why)
}
