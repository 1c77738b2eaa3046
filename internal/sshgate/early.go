package sshgate

import (
	"sync"

	"golang.org/x/crypto/ssh"

	"slipway/internal/sshtunnel"
)

// serveEarly serves a session's channel while it is not known yet whether the session can be reached.
func (l *line) serveEarly(nc ssh.NewChannel) {
	near, reqs, err := nc.Accept()
	if err != nil {
		return
	}
	l.meet(near)
	var work, telling sync.WaitGroup
	defer work.Wait()
	defer telling.Wait()
	work.Go(func() { l.ask(reqs) })
	work.Go(l.up)
	telling.Go(l.report)
	select {
	case <-l.v.ready:
	case <-l.gone:
		close(l.opened)
		_ = near.Close()
		return
	case <-l.v.ctx.Done():
		close(l.opened)
		<-l.v.parted
		return
	}
	telling.Wait() // from here on the session has the word
	if l.v.err != nil {
		l.fail(words(l.v.err)...)
		return
	}
	far, err := l.reach(func() (*sshtunnel.Channel, error) { return l.v.far.Open(l.v.ctx, l.kind, nc.ExtraData()) })
	if err != nil {
		_, message := refusal(err)
		l.missed(err)
		l.fail(message)
		return
	}
	l.begin(far)
	l.down()
}

// fail tells the user what has become of her session, as soon as there is somebody to read it.
func (l *line) fail(why ...string) {
	close(l.opened)
	defer l.v.tellOnce.Do(func() { close(l.v.told) })
	defer l.near.Close()
	select {
	case <-l.begun:
	case <-l.gone:
		return
	case <-l.v.ctx.Done():
		return
	}
	l.say(why...)
	_, _ = l.near.SendRequest("exit-status", false, noExit())
}

// hold keeps requests until they can be forwarded. more: the client has not closed the channel meanwhile. They are
// granted at once: many clients do nothing before they are, and show no progress.
func (l *line) hold(reqs <-chan *ssh.Request) (held []*ssh.Request, more bool) {
	for {
		select {
		case <-l.opened:
			return held, true
		default:
		}
		select {
		case <-l.opened:
			return held, true
		case r, ok := <-reqs:
			last := len(held) - 1
			switch {
			case !ok:
				return held, false
			case last >= 0 && resizes(held[last]) && resizes(r):
				held[last] = r
			case r.Type == "env" && len(held) >= mostRequests/2: // a session takes no more of them either, and a command is to come
				_ = r.Reply(false, nil)
			case len(held) >= mostRequests:
				l.v.end(tooManyRequests)
			default:
				_ = r.Reply(true, nil)
				l.note(r)
				held = append(held, r)
			}
		}
	}
}

// makeUp makes the requests that were granted too early. What cannot be run after all ends the channel.
func (l *line) makeUp(held []*ssh.Request) {
	for _, r := range held {
		l.asked.Lock()
		ok, err := l.send(r)
		l.asked.Unlock()
		if ok || err != nil || !r.WantReply || !runs(r.Type) {
			continue
		}
		l.say("the session does not do this: " + r.Type)
		_, _ = l.near.SendRequest("exit-status", false, noExit())
		_ = l.near.Close()
	}
}

// noExit is the exit status of what has not come to run.
func noExit() []byte { return ssh.Marshal(struct{ Status uint32 }{255}) }
