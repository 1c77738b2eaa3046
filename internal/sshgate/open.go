package sshgate

import (
	"context"
	"time"

	"golang.org/x/crypto/ssh"

	"slipway/internal/sshtunnel"
)

// open takes a channel that the client asks for, or refuses it.
func (v *visitor) open(nc ssh.NewChannel) {
	kind := nc.ChannelType()
	to, host, err := destination(kind, nc.ExtraData())
	network, is := denied(host, v.g.cfg.Deny)
	v.mu.Lock()
	full, noMore := len(v.lines) >= mostLines, v.noMore && kind == kindSession
	v.mu.Unlock()
	switch {
	case err != nil:
		_ = nc.Reject(ssh.ConnectionFailed, err.Error())
		return
	case is:
		v.record().Info("ssh refused", "reason", "a forward to "+network.String(), "to", to)
		_ = nc.Reject(ssh.Prohibited, "slipway: this site opens no forwards to "+network.String())
		return
	case noMore:
		_ = nc.Reject(ssh.Prohibited, "no more sessions were to be opened")
		return
	case full:
		_ = nc.Reject(ssh.ResourceShortage, "too many channels are open")
		return
	}
	l := v.newLine(kind, to)
	v.work.Go(func() {
		defer v.drop(l)
		l.serve(nc)
	})
}

// acceptTime is how long a session may take to take the channel that it has asked for.
const acceptTime = 10 * time.Second

// towards opens a channel to the client that the session asks for, if the client is ready for such.
func (v *visitor) towards(i *sshtunnel.Incoming) {
	v.mu.Lock()
	allowed, full := v.wanted[i.Kind], len(v.lines) >= mostLines
	v.mu.Unlock()
	if !allowed || full {
		_ = i.Refuse(uint32(ssh.Prohibited), "the client has not asked for such channels")
		return
	}
	l := v.newLine(i.Kind, "")
	v.work.Go(func() {
		defer v.drop(l)
		near, reqs, err := v.ssh.OpenChannel(i.Kind, i.Extra)
		if err != nil {
			l.missed(err)
			_ = i.Refuse(uint32(ssh.ConnectionFailed), "the client refuses it")
			return
		}
		// the session is told also where the client has gone
		ctx, cancel := context.WithTimeout(context.WithoutCancel(v.ctx), acceptTime)
		defer cancel()
		far, err := l.reach(func() (*sshtunnel.Channel, error) { return i.Accept(ctx) })
		if err != nil {
			l.missed(err)
			_ = near.Close()
			return
		}
		l.meet(near)
		l.begin(far)
		l.pump(reqs)
	})
}

// refusal tells the client what the session, or the way there, has said.
func refusal(err error) (reason uint32, message string) {
	if r, ok := err.(*sshtunnel.Refusal); ok {
		return r.Reason, r.Message
	}
	return uint32(ssh.ConnectionFailed), "the session cannot be reached"
}
