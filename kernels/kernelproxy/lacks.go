package kernelproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"slipway/hubapi"
	"slipway/internal/errs"
	"slipway/kernels/wire"
)

// FromSession is the cell that has the session frozen and its kernel start in that environment. The bridge takes it:
// the kernel's own environment need not know of it.
const FromSession = "%slipway kernel --from-session"

const (
	hasTime    = 5 * time.Second // for a look whether the session has a module: the kernel's next message waits for it
	switchTime = time.Minute
	removeTime = time.Minute
)

var noModule = regexp.MustCompile(`^No module named '([A-Za-z_][A-Za-z0-9_]*)'$`)

// missing returns the module for want of which a cell has failed; empty: it has not failed so. A submodule does not
// count: its package is there.
func missing(m wire.Message) string {
	if m.Type() != "error" {
		return ""
	}
	var c struct {
		Name  string `json:"ename"`
		Value string `json:"evalue"`
	}
	_ = json.Unmarshal(m.Content, &c) // what cannot be read names no module
	if found := noModule.FindStringSubmatch(c.Value); c.Name == "ModuleNotFoundError" && found != nil {
		return found[1]
	}
	return ""
}

// advise says under a cell that has failed for want of a module that the session has it, and how this kernel gets it.
// It is said before the cell is over: JupyterLab shows nothing that comes later.
func (b *bridge) advise(ctx context.Context, m wire.Message) {
	module := missing(m)
	if module == "" || b.cfg.Has == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, hasTime)
	defer cancel()
	version, has := b.cfg.Has(ctx, module)
	if !has {
		return
	}
	b.remark(m.Parent, fmt.Sprintf("%s is installed in your session, and this kernel runs in a container of its own, "+
		"in another environment. "+
		"To freeze your session and start this kernel anew from it, run this in a cell by itself:\n\n    %s\n\n"+
		"This kernel's variables are lost then. Or choose the session's own kernel (Kernel > Change Kernel: Python 3).",
		strings.TrimSpace(module+" "+version), FromSession))
}

// remark says something in words under a cell.
func (b *bridge) remark(cell json.RawMessage, text string) {
	b.publish(cell, "stream", map[string]string{"name": "stderr", "text": "Slipway: " + text + "\n"})
}

// wantsSession reports whether a message is the cell FromSession.
func wantsSession(m wire.Message) bool {
	if m.Type() != "execute_request" || m.Channel != wire.Shell {
		return false
	}
	var c struct {
		Code string `json:"code"`
	}
	_ = json.Unmarshal(m.Content, &c) // what cannot be read is not that cell
	return strings.Join(strings.Fields(c.Code), " ") == FromSession
}

// fromSession begins to have the kernel start from the session. The lock is held.
func (b *bridge) fromSession(ctx context.Context, r *request) {
	if b.moving != nil {
		b.refuse(r, "Busy", "this kernel is already being started from the session")
		return
	}
	b.moving = r
	b.publish(r.m.Header, "status", map[string]string{"execution_state": "busy"})
	b.clients.work.Go(func() {
		if err := b.move(ctx, r); err != nil && ctx.Err() == nil {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.moving = nil
			b.refuse(r, "NotStarted", withRemedy(err))
		}
	})
}

// withRemedy says an error with what to do about it.
func withRemedy(err error) string {
	text := err.Error()
	if e, ok := errors.AsType[*errs.Error](err); ok && e.Remedy != "" && !strings.Contains(text, e.Remedy) {
		text += ": " + e.Remedy
	}
	return text
}

// move freezes the session, has kernels of this kernelspec run in that environment, and ends the one that there is:
// serve starts another.
func (b *bridge) move(ctx context.Context, r *request) error {
	b.say(r, "Freezing your session")
	e, err := b.service.api.Freeze(ctx, hubapi.Self, hubapi.FreezeRequest{}, func(hubapi.Progress) {})
	if err != nil {
		return fmt.Errorf("freeze the session: %w", err)
	}
	wait, cancel := context.WithTimeout(ctx, switchTime)
	defer cancel()
	if _, err := b.service.api.SwitchKernel(wait, b.cfg.Spec, hubapi.KernelSwitch{Environment: e.Digest}); err != nil {
		return fmt.Errorf("have kernels of %s run in the session's environment: %w", b.cfg.Spec, err)
	}
	b.mu.Lock()
	b.again, b.running, b.said = true, false, ""
	b.asked.drop(len(b.asked.line))
	for _, other := range b.asked.open() {
		if other != r {
			b.refuse(other, wire.DeadKernel, wire.BegunAnew)
		}
	}
	b.show()
	b.mu.Unlock()
	end, cancel := context.WithTimeout(ctx, removeTime)
	defer cancel()
	_, err = insist(
		end, func(ctx context.Context) (hubapi.Kernel, error) { return hubapi.Kernel{}, b.service.remove(ctx) },
	)
	return err
}

// say tells under a cell how far it is, until the kernel is there.
func (b *bridge) say(r *request, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clear()
	b.remark(r.m.Header, text)
	b.told = r
}

// restarts reports, once, whether the kernel has ended because another is to take its place.
func (b *bridge) restarts() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	again := b.again
	b.again, b.replaced = false, again
	return again
}

// moved answers the cell that has had the kernel start from the session. The lock is held.
func (b *bridge) moved() {
	r := b.moving
	if r == nil || !b.replaced {
		return
	}
	b.moving, b.replaced = nil, false
	if !r.open {
		return
	}
	r.open = false
	b.remark(r.m.Header, "this kernel now runs in your session's environment, and so do your next ones of "+b.cfg.Spec+
		". `slipway kernels switch environment default --kernel "+b.cfg.Spec+"` in a terminal goes back to the usual one.")
	// JupyterLab takes a cell without a number for one that still runs.
	b.reply(
		r.from, r.m, r.answer(),
		map[string]any{"status": "ok", "execution_count": 1, "user_expressions": map[string]any{}, "payload": []any{}},
	)
	b.publish(r.m.Header, "status", map[string]string{"execution_state": "idle"})
}
