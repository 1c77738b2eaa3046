package htcondor

import (
	"context"
	"fmt"
	"strings"

	"slipway/spawner/batch"
	"slipway/spawner/batch/command"
	"slipway/spawner/htcondor/commands"
)

// Submit submits jobs in one transaction.
func (s *system) Submit(ctx context.Context, all batch.Submission) ([]batch.Job, error) {
	dir, err := s.tokens.of(ctx, all.Login)
	if err != nil {
		return nil, err
	}
	rows := make([]row, len(all.Entries))
	for i, e := range all.Entries {
		rows[i] = rowOf(e)
	}
	out, err := s.run(ctx, command.Command{
		Name: "condor_submit", Args: []string{"-terse", "-disable", "-"}, Env: commands.Showing(dir),
		Input: description(all.Head, rows), Holds: all.Holds,
	})
	s.tokens.refused(all.Login, err)
	switch f, ok := command.AsFailure(err); {
	case ok && f.Code < 0:
		return nil, batch.Killed{Err: err}
	case command.Complained(err, commands.TooManyAtOnce):
		return nil, batch.TooMany{Err: err}
	case err != nil:
		return nil, err
	}
	return parseSubmitted(string(out), len(rows))
}

// Remove removes jobs of one account.
func (s *system) Remove(ctx context.Context, login string, names []string, unbegun bool) error {
	dir, err := s.tokens.of(ctx, login)
	if err != nil {
		return err
	}
	args := names
	if unbegun {
		args = []string{"-constraint", unbegunOf(names)}
	}
	_, err = s.run(ctx, command.Command{Name: "condor_rm", Args: args, Env: commands.Showing(dir)})
	s.tokens.refused(login, err)
	if f, ok := command.AsFailure(err); ok && f.Code > 0 && (strings.Contains(f.Stderr, "not found") ||
		unbegun && strings.Contains(f.Stderr, noneFits)) {
		return nil
	}
	return err
}

// noneFits is what condor_rm says when there is no job that fulfils its constraint.
const noneFits = "matching constraint"

// unbegunOf asks for those of some jobs that have not begun.
func unbegunOf(names []string) string {
	return fmt.Sprintf(
		`(NumShadowStarts ?: 0) == 0 && stringListMember(strcat(ClusterId, ".", ProcId), "%s")`,
		strings.Join(names, ","),
	)
}
