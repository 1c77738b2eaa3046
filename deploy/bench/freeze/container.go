package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strings"

	"slipway/images"
	"slipway/images/apptainer"
	"slipway/images/manifest"
)

// container is what the engine says of the container whose changes are frozen.
type container struct {
	id, image     string
	upper, merged string
	layers        []string // topmost first, without what the engine adds
	env           []string
}

func inspect(ctx context.Context, name string) (container, error) {
	out, err := exec.CommandContext(ctx, "docker", "inspect", name).Output()
	if err != nil {
		return container{}, fmt.Errorf("inspect %s: %w", name, err)
	}
	var facts []struct {
		Image, ID   string
		Config      struct{ Env []string }
		GraphDriver struct {
			Data struct{ UpperDir, MergedDir, LowerDir string }
		}
	}
	if err := json.Unmarshal(out, &facts); err != nil || len(facts) != 1 {
		return container{}, fmt.Errorf("inspect %s: %s: %w", name, out, err)
	}
	f := facts[0]
	layers := slices.DeleteFunc(
		strings.Split(f.GraphDriver.Data.LowerDir, ":"),
		func(dir string) bool { return strings.Contains(dir, "-init/") },
	)
	d := f.GraphDriver.Data
	return container{
		id: f.ID, image: f.Image, upper: d.UpperDir, merged: d.MergedDir, layers: layers, env: f.Config.Env,
	}, nil
}

// source is what the service would give the library.
func (c container) source() images.Source {
	return images.Source{
		Layers: c.layers, Upper: c.upper, Base: manifest.Base{Reference: c.image, Digest: c.image},
		Config: apptainer.ImageConfig{Env: c.env},
		Pause:  c.order("pause"), Resume: c.order("unpause"),
	}
}

// order asks the engine by its socket, as the service does.
func (c container) order(what string) func(context.Context) error {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", "/var/run/docker.sock")
	}
	client := &http.Client{Transport: &http.Transport{DialContext: dial}}
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://docker/containers/"+c.id+"/"+what, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusNoContent {
			return fmt.Errorf("%s: %s", what, resp.Status)
		}
		return nil
	}
}
