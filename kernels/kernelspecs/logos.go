package kernelspecs

import (
	"cmp"
	"os"
	"path/filepath"

	"slipway/internal/config"
	"slipway/kernels"
	"slipway/spawner"
)

// logosOf returns the pictures of a kernelspec: the site's, or the stack's, or one of this service's own.
func (m *Catalog) logosOf(k config.KernelSpec, v variant, spec spawner.Spec) []kernels.Logo {
	switch {
	case k.Logo != "":
		return m.logos.get(k.Logo, func() []kernels.Logo {
			data, err := os.ReadFile(k.Logo)
			if err != nil || len(data) > config.LogoLimit {
				m.Logger.Warn("a kernelspec has no logo", "name", k.Name, "file", k.Logo, "error", err)
				return nil
			}
			return logoOf(filepath.Ext(k.Logo), data)
		})
	case v.stack != nil && len(v.stack.Logo) > 0:
		return logoOf(v.stack.LogoExt, v.stack.Logo)
	}
	kind := kernels.LogoCPU
	switch {
	case v.stack != nil:
		kind = kernels.LogoStack
	case v.env != nil:
		kind = kernels.LogoEnvironment
	case !spec.GPU.None():
		kind = kernels.LogoGPU
	}
	return m.logos.get(kind, func() []kernels.Logo { return kernels.Logos(kind) })
}

// logoOf returns a file's picture by the name under which launchers look for its form.
func logoOf(ext string, data []byte) []kernels.Logo {
	return []kernels.Logo{kernels.LogoOf(cmp.Or(map[string]string{".svg": "logo-svg"}[ext], "logo-64x64"), ext, data)}
}
