package pages

import (
	"html/template"
	"net/http"

	"slipway/hubapi"
	"slipway/hubapi/server/usage"
	"slipway/internal/webui"
)

// picture has a chart shown as a part of a page. Charts have no text in them that is not escaped.
func picture(svg string) template.HTML { return template.HTML(svg) }

// chartsOf draws what a session or job has used; nil where nothing was measured.
func chartsOf(s hubapi.UsageSeries) (all []webui.Chart) {
	if len(s.Points) == 0 {
		return nil
	}
	names := hubapi.UsageCharts
	if !usage.HasGPU(s) {
		names = names[:2]
	}
	for _, of := range names {
		all = append(all, webui.Chart{Name: usage.ChartName(of), SVG: picture(usage.Chart(s, of))})
	}
	return all
}

// usagePage shows what the visitor's sessions and jobs use now; to an administrator also how the site was used and,
// with all=1, what everybody's use.
func (p *Pages) usagePage(w http.ResponseWriter, r *http.Request, v visitor) error {
	view := webui.UsageView{All: v.caller.Admin && r.URL.Query().Get("all") == "1"}
	var err error
	if view.List, err = p.cfg.Usage.Running(r.Context(), v.caller, view.All); err != nil {
		return err
	}
	if v.caller.Admin {
		site, err := p.cfg.Usage.Site(v.caller)
		if err != nil {
			return err
		}
		for _, of := range hubapi.SiteCharts {
			if of == "gpus" && site.GPUs == 0 {
				continue
			}
			view.Site = append(view.Site, webui.Chart{Name: usage.ChartName(of), SVG: picture(usage.SiteChart(site, of))})
		}
	}
	return webui.UsagePage(w, p.view(v), view)
}
