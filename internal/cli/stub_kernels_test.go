package cli_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"slipway/hubapi"
	"slipway/kernels/wire"
)

// stubKernels is a site with kernels on slices. Carol, who is an administrator, has two that run, and bob has one.
type stubKernels struct {
	mu       sync.Mutex
	kernels  []hubapi.Kernel
	ending   map[string]int // looks until a session is gone
	gpu      string         // to which carol has switched
	session  hubapi.Session // what the others are like
	bobsGone bool
}

func newStubKernels(session hubapi.Session) *stubKernels {
	kernel := func(id, session, name, state string) hubapi.Kernel {
		return hubapi.Kernel{ID: id, Name: name, State: state, Session: session, Connections: 1, Activity: time.Now().Add(-90 * time.Second)}
	}
	return &stubKernels{session: session, ending: map[string]int{}, kernels: []hubapi.Kernel{
		kernel("11111111-aaaa-4aaa-8aaa-aaaaaaaaaaaa", "s-kernel0000000001", "python-gpu", "busy"),
		kernel("22222222-aaaa-4aaa-8aaa-aaaaaaaaaaaa", "s-kernel0000000002", "python-gpu", "idle"),
	}}
}

// bobs is the session that bob's kernel is.
const bobs = "s-kernel0000000009"

// sessions are what the kernels are besides.
func (k *stubKernels) sessions() (all []hubapi.Session) {
	of := func(id, user, name, phase string) {
		s := k.session
		s.ID, s.User, s.Name, s.Phase, s.Kind, s.Created, s.Active = id, user, name, phase, "kernel", time.Now().Add(-2*time.Hour), nil
		all = append(all, s)
	}
	for _, kernel := range k.kernels {
		of(kernel.Session, "carol", kernel.Name, "running")
	}
	for id := range k.ending {
		of(id, "carol", "python-gpu", "stopping")
	}
	if !k.bobsGone {
		of("s-kernel0000000008", "bob", "python", "starting")
		all[len(all)-1].Standby, all[len(all)-1].Want = true, "running"
		all[len(all)-1].Slice = &hubapi.Slice{Name: "1g.18gb", Model: "NVIDIA H200", Simulated: true}
		of(bobs, "bob", "python", "running")
	}
	lab := k.session
	return append(all, lab)
}

func (k *stubKernels) spec() hubapi.KernelSpec {
	gpu, switched := "1g.18gb", hubapi.KernelSwitch{}
	if k.gpu != "" {
		gpu, switched.GPU = k.gpu, k.gpu
	}
	return hubapi.KernelSpec{
		Name: "python-gpu", DisplayName: "Python (GPU " + gpu + ")", Resources: hubapi.Resources{
			GPU: gpu, CPUs: 4, Memory: "8G",
		}, GPUs: []string{"1g.18gb", "3g.71gb"}, Switched: switched,
		MaxCPUs: 8, MaxMemory: "16G",
		Available: hubapi.KernelRoom{State: hubapi.RoomFree, Words: "3 free now"},
		Standbys:  &hubapi.KernelStandbys{Most: 4, Ready: 1, Lacking: 2, Why: "there is no room: 4 CPUs asked, 1 of 8 free"},
	}
}

// routes are carol's.
func (k *stubKernels) routes() http.Handler {
	mux := http.NewServeMux()
	const api, gateway = hubapi.Base, hubapi.GatewayBase
	locked := func(pattern string, serve http.HandlerFunc) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			k.mu.Lock()
			defer k.mu.Unlock()
			serve(w, r)
		})
	}
	locked("GET "+api+"/me", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, hubapi.Me{User: "carol", Hub: "main", Admin: true})
	})
	locked("GET "+api+"/sessions", func(w http.ResponseWriter, _ *http.Request) { answer(w, hubapi.Sessions{Sessions: k.sessions()}) })
	locked("GET "+api+"/sessions/{id}", k.one)
	locked("DELETE "+api+"/sessions/{id}", func(w http.ResponseWriter, r *http.Request) {
		k.bobsGone = r.PathValue("id") == bobs
		w.WriteHeader(http.StatusNoContent)
	})
	locked("GET "+api+"/kernelspecs", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, hubapi.KernelSpecs{KernelSpecs: []hubapi.KernelSpec{k.spec()}})
	})
	locked("POST "+api+"/kernelspecs/{name}/switch", k.change)
	locked("GET "+gateway+"/kernels", func(w http.ResponseWriter, _ *http.Request) { answer(w, k.kernels) })
	locked("POST "+gateway+"/kernels", k.start)
	locked("GET "+gateway+"/kernels/{id}", k.of(func(w http.ResponseWriter, i int) { answer(w, k.kernels[i]) }))
	locked("POST "+gateway+"/kernels/{id}/interrupt", k.of(func(w http.ResponseWriter, i int) {
		k.kernels[i].State = "idle"
		w.WriteHeader(http.StatusNoContent)
	}))
	locked("POST "+gateway+"/kernels/{id}/restart", k.of(func(w http.ResponseWriter, i int) {
		if k.kernels[i].State == "busy" {
			fault(w, http.StatusConflict, "the kernel is not up yet: try again when it is")
			return
		}
		answer(w, k.kernels[i])
	}))
	locked("DELETE "+gateway+"/kernels/{id}", k.of(func(w http.ResponseWriter, i int) {
		k.ending[k.kernels[i].Session] = 2
		k.kernels = slices.Delete(k.kernels, i, i+1)
		w.WriteHeader(http.StatusNoContent)
	}))
	return mux
}

// one gives a session. One that is being ended is there for some looks more.
func (k *stubKernels) one(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if left, ending := k.ending[id]; ending {
		if k.ending[id] = left - 1; left == 0 {
			delete(k.ending, id)
		}
	}
	for _, s := range k.sessions() {
		if s.ID == id {
			answer(w, s)
			return
		}
	}
	refuse(w, 404, "not_found", "there is no "+id, "")
}

// of does something to the kernel that a path names.
func (k *stubKernels) of(do func(w http.ResponseWriter, i int)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		i := slices.IndexFunc(k.kernels, func(o hubapi.Kernel) bool { return o.ID == r.PathValue("id") })
		if i < 0 {
			fault(w, http.StatusNotFound, "there is no such kernel of yours: start another")
			return
		}
		do(w, i)
	}
}

// fault refuses as the gateway does.
func fault(w http.ResponseWriter, status int, message string) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"reason": http.StatusText(status), "message": message})
}

func (k *stubKernels) start(w http.ResponseWriter, r *http.Request) {
	var q hubapi.KernelRequest
	_ = json.NewDecoder(r.Body).Decode(&q)
	if q.Name != "" && q.Name != "python-gpu" {
		fault(w, http.StatusNotFound, "there is no kernel called \""+q.Name+"\" for you: choose one of python-gpu")
		return
	}
	n := hubapi.Kernel{ID: q.Env[wire.IDVariable], Name: "python-gpu", State: "idle", Session: "s-kernel0000000003", Activity: time.Now()}
	k.kernels = append(k.kernels, n)
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(n)
}

func (k *stubKernels) change(w http.ResponseWriter, r *http.Request) {
	var to hubapi.KernelSwitch
	_ = json.NewDecoder(r.Body).Decode(&to)
	switch name := r.PathValue("name"); {
	case name != hubapi.Self && name != "python-gpu":
		refuse(w, 404, "not_found", "there is no kernelspec \""+name+"\" for you", "one of python-gpu")
	case to.GPU == hubapi.SwitchDefault:
		k.gpu = ""
		answer(w, k.spec())
	case !slices.Contains(k.spec().GPUs, to.GPU):
		refuse(w, 422, "invalid", "gpu: \""+to.GPU+"\" is not valid", "one of "+strings.Join(k.spec().GPUs, ", ")+", or default")
	default:
		k.gpu = to.GPU
		answer(w, k.spec())
	}
}
