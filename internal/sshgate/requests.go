package sshgate

import (
	"golang.org/x/crypto/ssh"
)

// take takes what the client asks for, until it is gone. What x/crypto hands over in two ways is brought into the order
// in which it came as far as it matters: channels that were asked for before a request are seen before it.
func (v *visitor) take(chans <-chan ssh.NewChannel, reqs <-chan *ssh.Request) {
	defer close(v.queue)
	for chans != nil || reqs != nil {
		select {
		case c, ok := <-chans:
			if !ok {
				chans = nil
				continue
			}
			v.open(c)
		case r, ok := <-reqs:
			if !ok {
				reqs = nil
				continue
			}
			for earlier := true; earlier && chans != nil; {
				select {
				case c, ok := <-chans:
					if !ok {
						chans = nil
						continue
					}
					v.open(c)
				default:
					earlier = false
				}
			}
			v.ask(r)
		}
	}
}

// ask puts a request of the whole connection behind those before it.
func (v *visitor) ask(r *ssh.Request) {
	if r.Type == "no-more-sessions@openssh.com" {
		v.mu.Lock()
		v.noMore = true
		v.mu.Unlock()
	}
	select {
	case v.queue <- r:
	default:
		v.end(tooManyRequests)
	}
}

// answer answers the requests of the whole connection, one after the other: the protocol knows them by their order
// alone.
func (v *visitor) answer() {
	for r := range v.queue {
		ok, answer := v.request(r)
		if v.ctx.Err() != nil {
			continue
		}
		_ = r.Reply(ok, answer)
	}
}

func (v *visitor) request(r *ssh.Request) (ok bool, answer []byte) {
	switch r.Type {
	case "keepalive@openssh.com", "no-more-sessions@openssh.com":
		return true, nil
	case "hostkeys-prove-00@openssh.com":
		return v.proveKeys(r.Payload)
	case "tcpip-forward":
		v.want(kindFromTCP)
	case "streamlocal-forward@openssh.com":
		v.want(kindFromUnx)
	}
	select {
	case <-v.ready:
	case <-v.ctx.Done():
		return false, nil
	}
	if v.err != nil {
		return false, nil
	}
	ok, answer, err := v.far.Request(v.ctx, r.Type, r.WantReply || listens(r.Type), r.Payload)
	ok = ok && err == nil
	v.listened(r, ok, answer)
	return ok, answer
}

// want notes that the client is ready for channels of a kind.
func (v *visitor) want(kind string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.wanted[kind] = true
}
