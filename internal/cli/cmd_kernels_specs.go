package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"slipway/hubapi"
	"slipway/internal/cli/render"
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
		return env.data(hubapi.KernelSpecs{KernelSpecs: list})
	}
	var rows [][]string
	head := []string{"NAME", "KERNEL", "GPU", "CPUS", "MEMORY", "NOW", "CAN SWITCH TO"}
	told := slices.ContainsFunc(list, func(k hubapi.KernelSpec) bool { return k.Standbys != nil })
	if told {
		head = append(head, "STAND BY")
	}
	for _, k := range list {
		more := slices.DeleteFunc(slices.Clone(k.GPUs), func(g string) bool { return g == k.GPU })
		row := []string{
			k.Name, k.DisplayName, k.GPU, fmt.Sprint(k.CPUs), k.Memory, k.Available.Words, switchWords(more, k),
		}
		if told {
			row = append(row, standbyWords(k.Standbys))
		}
		rows = append(rows, row)
	}
	return render.Table(env.Stdout, head, rows, "There is no kernel for you: ask your administrator for one.")
}

// switchWords says to what a kernelspec can be switched: to other slices, and up to how many processors and how much
// memory.
func switchWords(gpus []string, k hubapi.KernelSpec) string {
	words := slices.Clone(gpus)
	var most []string
	if k.MaxCPUs > 0 {
		most = append(most, fmt.Sprintf("%g CPU", k.MaxCPUs))
	}
	if k.MaxMemory != "" {
		most = append(most, k.MaxMemory)
	}
	if len(most) > 0 {
		words = append(words, "up to "+strings.Join(most, " and "))
	}
	return strings.Join(words, ", ")
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
