package mps

import (
	"context"
	"regexp"
	"strings"
)

// Ability is what the installed MPS can do, as its own help says.
type Ability struct {
	MultiUser bool // sessions of several users at once on a GPU; otherwise of one at a time
	V3        bool // unequal shares; otherwise all shares of a GPU are equal
	Clients   int  // processes at once on a GPU
	flag      string
}

var (
	multiUserFlag = regexp.MustCompile(`--multiuser(?:-server)?\b`)
	namespaceWord = regexp.MustCompile(`(?m)\bnamespace\b`)
)

// parseAbility reads the help of the two protocols. An old program prints its usual help for the second one too, or an
// error.
func parseAbility(help, help3 string) Ability {
	a := Ability{Clients: 48, V3: strings.Contains(help3, "--protocol") && namespaceWord.MatchString(help3)}
	text := help
	if a.V3 {
		text = help3 + help
	}
	a.flag = multiUserFlag.FindString(text)
	a.MultiUser = a.flag != ""
	if a.V3 || strings.Contains(help, "--static-partitioning") { // both came with or after CUDA 13.1, which allows more
		a.Clients = 60
	}
	return a
}

// Probe asks the control program what it can do. It starts no daemon, and reaches none.
func (d *Daemons) Probe(ctx context.Context) (Ability, error) {
	nowhere := daemon{uuid: "none", dir: d.cfg.Dir + "/none"}
	help, err := d.run(ctx, nowhere, "", "-h")
	if err != nil && !isRefusal(err) {
		return Ability{}, err
	}
	help3, err := d.run(ctx, nowhere, "", "-p", "3", "-h")
	if err != nil && !isRefusal(err) {
		return Ability{}, err
	}
	a := parseAbility(help, help3)
	if d.uid != 0 { // it takes root to serve others
		a.MultiUser, a.flag = false, ""
	}
	d.mu.Lock()
	d.ability = &a
	d.mu.Unlock()
	return a, nil
}

// able returns what was last probed.
func (d *Daemons) able(ctx context.Context) (Ability, error) {
	d.mu.Lock()
	a := d.ability
	d.mu.Unlock()
	if a != nil {
		return *a, nil
	}
	return d.Probe(ctx)
}
