package fakegpu_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/gpu"
	"slipway/internal/gpu/fakegpu"
)

var lowest = gpu.Placement{Start: 0, Size: 1}

func cutHost(t *testing.T) (*fakegpu.Driver, string) {
	t.Helper()
	d := host(t, "H200/mig", "H200/mig")
	return d, device(t, d).UUID
}

func TestFaultsAreCounted(t *testing.T) {
	d, uuid := cutHost(t)
	in := create(t, d, uuid, "1g.18gb", 0, 1)
	d.Fail(uuid, fakegpu.Fault{On: fakegpu.OpDestroy, Err: gpu.ErrInUse, Times: 2})
	for _, want := range []error{gpu.ErrInUse, gpu.ErrInUse, nil, nil} {
		is(t, "DestroyInstance()", d.DestroyInstance(t.Context(), uuid, in.GI), want)
	}
}

func TestFaultsEndInTimeOrWhenHealed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, uuid := cutHost(t)
		d.Fail("", fakegpu.Fault{Err: gpu.ErrNoDriver, For: 5 * time.Second})
		time.Sleep(4 * time.Second)
		_, err := d.System(t.Context())
		is(t, "System() meanwhile", err, gpu.ErrNoDriver)
		_, err = d.Read(t.Context(), uuid)
		is(t, "Read() meanwhile", err, gpu.ErrNoDriver)
		time.Sleep(time.Second)
		_, err = d.Devices(t.Context())
		is(t, "Devices() afterwards", err, nil)
		d.Fail(uuid, fakegpu.Fault{On: fakegpu.OpMIG, Err: gpu.ErrDenied})
		for range 3 {
			is(t, "SetMIG()", d.SetMIG(t.Context(), uuid, false), gpu.ErrDenied)
		}
		d.Heal()
		is(t, "SetMIG() healed", d.SetMIG(t.Context(), uuid, false), nil)
	})
}

func TestFaultsMeetTheirGPUAndCallAlone(t *testing.T) {
	d, uuid := cutHost(t)
	all, _ := d.Devices(t.Context())
	d.Fail(uuid, fakegpu.Fault{On: fakegpu.OpCreate, Err: gpu.ErrDenied})
	create(t, d, all[1].UUID, "1g.18gb", 0, 1)
	if _, err := d.Read(t.Context(), uuid); err != nil {
		t.Error(err)
	}
	_, err := d.CreateInstance(t.Context(), uuid, "1g.18gb", lowest)
	is(t, "CreateInstance()", err, gpu.ErrDenied)
	if got := instances(t, d, uuid); len(got) > 0 {
		t.Errorf("a creation that was denied left %+v", got)
	}
}

// Every call can fail, and says what it was about.
func TestEveryCallCanFail(t *testing.T) {
	d := with(t, fakegpu.Config{Models: []string{"H200"}, R615: true})
	uuid := device(t, d).UUID
	ctx := t.Context()
	boom := errors.New("boom")
	for op, call := range map[fakegpu.Op]func() error{
		fakegpu.OpSystem:    func() error { _, err := d.System(ctx); return err },
		fakegpu.OpDevices:   func() error { _, err := d.Devices(ctx); return err },
		fakegpu.OpInstances: func() error { _, err := d.Instances(ctx, uuid); return err },
		fakegpu.OpCreate:    func() error { _, err := d.CreateInstance(ctx, uuid, "", lowest); return err },
		fakegpu.OpDestroy:   func() error { return d.DestroyInstance(ctx, uuid, 1) },
		fakegpu.OpMIG:       func() error { return d.SetMIG(ctx, uuid, true) },
		fakegpu.OpExclusive: func() error { return d.SetExclusive(ctx, uuid, true) },
		fakegpu.OpHealth:    func() error { _, err := d.Health(ctx, uuid); return err },
		fakegpu.OpRead:      func() error { _, err := d.Read(ctx, uuid); return err },
		fakegpu.OpLimit:     func() error { return d.LimitMemory(ctx, uuid, "a", 1) },
	} {
		d.Fail("", fakegpu.Fault{On: op, Err: boom, Times: 1})
		is(t, string(op), call(), boom)
	}
}

func TestDestructionLeavesARemnant(t *testing.T) {
	d, uuid := cutHost(t)
	in := create(t, d, uuid, "1g.18gb", 0, 1)
	d.Fail(uuid, fakegpu.Fault{On: fakegpu.OpDestroy, Remnant: true, Times: 1})
	is(t, "DestroyInstance()", d.DestroyInstance(t.Context(), uuid, in.GI), nil)
	remnant(t, d, uuid, in.GI)
	_, err := d.CreateInstance(t.Context(), uuid, "1g.18gb", lowest)
	is(t, "CreateInstance() over a remnant", err, gpu.ErrNoRoom)
	is(t, "Occupy() of a remnant", d.Occupy(uuid, fakegpu.Process{PID: 1, GI: in.GI}), gpu.ErrNotFound)
	if r, err := d.Read(t.Context(), uuid); err != nil || r.Instances[in.GI] != (gpu.InstanceUse{SM: -1, MemoryUsed: -1}) {
		t.Errorf("a remnant is read as %+v, %v", r, err)
	}
	is(t, "DestroyInstance() of a remnant", d.DestroyInstance(t.Context(), uuid, in.GI), nil)
	create(t, d, uuid, "1g.18gb", 0, 1)
}

func TestCreationLeavesARemnant(t *testing.T) {
	d, uuid := cutHost(t)
	d.Fail(uuid, fakegpu.Fault{On: fakegpu.OpCreate, Remnant: true, Times: 1})
	if in, err := d.CreateInstance(t.Context(), uuid, "1g.18gb", lowest); err == nil {
		t.Errorf("CreateInstance() = %+v", in)
	}
	remnant(t, d, uuid, 11)
}

// remnant checks that a GPU has one GPU instance, without a compute instance.
func remnant(t *testing.T, d *fakegpu.Driver, uuid string, gi int) {
	t.Helper()
	all := instances(t, d, uuid)
	if len(all) != 1 || all[0].GI != gi || all[0].CI != -1 || all[0].UUID != "" || len(all[0].Caps) != 1 {
		t.Errorf("there are %+v, and not the remnant %d alone", all, gi)
	}
}

func TestSlowChangesAreHalfDoneMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, uuid := cutHost(t)
		d.Fail(uuid, fakegpu.Fault{Delay: time.Second, On: fakegpu.OpCreate})
		d.Fail(uuid, fakegpu.Fault{Delay: time.Second, On: fakegpu.OpDestroy})
		began := time.Now()
		var err error
		go func() { _, err = d.CreateInstance(t.Context(), uuid, "1g.18gb", lowest) }()
		synctest.Wait()
		remnant(t, d, uuid, 11)
		time.Sleep(time.Second)
		synctest.Wait()
		if got := instances(t, d, uuid); err != nil || len(got) != 1 || got[0].UUID == "" {
			t.Errorf("a slow creation ends with %v, and %+v", err, got)
		}
		go func() { err = d.DestroyInstance(t.Context(), uuid, 11) }()
		synctest.Wait()
		remnant(t, d, uuid, 11)
		time.Sleep(time.Second)
		synctest.Wait()
		if got := instances(t, d, uuid); err != nil || len(got) != 0 || time.Since(began) != 2*time.Second {
			t.Errorf("a slow destruction ends with %v, and %+v, after %v", err, got, time.Since(began))
		}
	})
}

func TestWhoDoesNotWaitLeavesHalfAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, uuid := cutHost(t)
		d.Fail(uuid, fakegpu.Fault{Delay: time.Minute})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := d.CreateInstance(ctx, uuid, "1g.18gb", lowest)
		is(t, "CreateInstance()", err, context.DeadlineExceeded)
		is(t, "DestroyInstance() that is late already", d.DestroyInstance(ctx, uuid, 11), context.DeadlineExceeded)
		d.Heal()
		remnant(t, d, uuid, 11)
		is(t, "DestroyInstance()", d.DestroyInstance(t.Context(), uuid, 11), nil)
	})
}

// A slow change holds up changes of its own GPU, and nothing else.
func TestChangesOfOneGPUComeOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, uuid := cutHost(t)
		all, _ := d.Devices(t.Context())
		d.Fail(uuid, fakegpu.Fault{On: fakegpu.OpCreate, Delay: time.Minute, Times: 1})
		began, done := time.Now(), make(chan error)
		go func() {
			_, err := d.CreateInstance(t.Context(), uuid, "1g.18gb", lowest)
			done <- err
		}()
		synctest.Wait()
		create(t, d, all[1].UUID, "1g.18gb", 1, 1)
		if _, err := d.Read(t.Context(), uuid); err != nil || time.Since(began) > 0 {
			t.Errorf("reading took %v, %v", time.Since(began), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		is(t, "DestroyInstance() behind another", d.DestroyInstance(ctx, uuid, 11), context.DeadlineExceeded)
		create(t, d, uuid, "1g.18gb", 2, 1)
		if err := <-done; err != nil || time.Since(began) != time.Minute {
			t.Errorf("the slow one took %v, %v", time.Since(began), err)
		}
		if got := instances(t, d, uuid); len(got) != 2 {
			t.Errorf("there are %+v", got)
		}
	})
}

func TestALostGPU(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, uuid := cutHost(t)
		d.Sicken(uuid, gpu.Health{Lost: true, Xid: 79, Reason: "GPU has fallen off the bus"}, time.Minute)
		if all, err := d.Devices(t.Context()); err != nil || len(all) != 1 || all[0].UUID == uuid {
			t.Errorf("Devices() = %+v, %v", all, err)
		}
		if h, err := d.Health(t.Context(), uuid); err != nil || !h.Lost || h.Xid != 79 {
			t.Errorf("Health() = %+v, %v", h, err)
		}
		_, err := d.Instances(t.Context(), uuid)
		is(t, "Instances()", err, gpu.ErrLost)
		_, err = d.CreateInstance(t.Context(), uuid, "1g.18gb", lowest)
		is(t, "CreateInstance()", err, gpu.ErrLost)
		is(t, "DestroyInstance()", d.DestroyInstance(t.Context(), uuid, 1), gpu.ErrLost)
		_, err = d.Read(t.Context(), uuid)
		is(t, "Read()", err, gpu.ErrLost)
		time.Sleep(time.Minute)
		create(t, d, uuid, "1g.18gb", 0, 1)
	})
}

func TestALostGPUFailsWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, uuid := cutHost(t)
		d.Fail(uuid, fakegpu.Fault{On: fakegpu.OpCreate, Delay: time.Minute, Times: 1})
		done := make(chan error)
		go func() {
			_, err := d.CreateInstance(t.Context(), uuid, "1g.18gb", lowest)
			done <- err
		}()
		synctest.Wait()
		d.Sicken(uuid, gpu.Health{Lost: true}, 0)
		is(t, "CreateInstance()", <-done, gpu.ErrLost)
	})
}

func TestSicknessIsReported(t *testing.T) {
	d, uuid := cutHost(t)
	for _, h := range []gpu.Health{{Xid: 48, Temperature: 91}, {ECC: 3, Temperature: 40}, {RowsPending: true, Temperature: 40}} {
		d.Sicken(uuid, h, 0)
		if got, err := d.Health(t.Context(), uuid); err != nil || got != h {
			t.Errorf("Health() = %+v, %v, not %+v", got, err, h)
		}
	}
	is(t, "Reset()", d.Reset(uuid), nil)
	if got, err := d.Health(t.Context(), uuid); err != nil || got != (gpu.Health{Temperature: 30}) {
		t.Errorf("Health() after a reset = %+v, %v", got, err)
	}
	_, err := d.Health(t.Context(), "GPU-none")
	is(t, "Health() of none", err, gpu.ErrNotFound)
}
