package kernels

import "sync"

// errand is work that is done in a goroutine of its own while there is some: most websockets do nothing for hours, and
// what nobody does has no stack. Its do must be set before it is started.
type errand struct {
	do    func()
	mu    sync.Mutex
	busy  bool
	again bool // it was started since
	over  bool
	work  sync.WaitGroup
}

// start has it done, once more if it is being done.
func (e *errand) start() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over {
		return
	}
	e.again = true
	if !e.busy {
		e.busy = true
		e.work.Go(e.run)
	}
}

func (e *errand) run() {
	for e.more() {
		e.do()
	}
}

func (e *errand) more() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.busy, e.again = e.again && !e.over, false
	return e.busy
}

// end waits until it is done, and has it done no more.
func (e *errand) end() {
	e.mu.Lock()
	e.over = true
	e.mu.Unlock()
	e.work.Wait()
}
