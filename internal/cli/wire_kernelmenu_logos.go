//go:build linux

package cli

import (
	"cmp"
	"os"
	"path/filepath"

	"slipway/internal/config"
	gateway "slipway/kernels"
	"slipway/spawner"
)

// logosOf gives the pictures of a kernelspec: the site's, or the stack's, or one of this service's own.
func (m *kernelMenu) logosOf(k config.KernelSpec, v variant, spec spawner.Spec) []gateway.Logo {
	switch {
	case k.Logo != "":
		return m.logos.get(k.Logo, func() []gateway.Logo {
			data, err := os.ReadFile(k.Logo)
			if err != nil || len(data) > config.LogoLimit {
				m.log.Warn("a kernelspec has no logo", "name", k.Name, "file", k.Logo, "error", err)
				return nil
			}
			return logoOf(filepath.Ext(k.Logo), data)
		})
	case v.stack != nil && len(v.stack.Logo) > 0:
		return logoOf(v.stack.LogoExt, v.stack.Logo)
	}
	kind := gateway.LogoCPU
	switch {
	case v.stack != nil:
		kind = gateway.LogoStack
	case v.env != nil:
		kind = gateway.LogoEnvironment
	case !spec.GPU.None():
		kind = gateway.LogoGPU
	}
	return m.logos.get(kind, func() []gateway.Logo { return gateway.Logos(kind) })
}

// logoOf gives a file's picture by the name under which launchers look for its form.
func logoOf(ext string, data []byte) []gateway.Logo {
	return []gateway.Logo{gateway.LogoOf(cmp.Or(map[string]string{".svg": "logo-svg"}[ext], "logo-64x64"), ext, data)}
}
