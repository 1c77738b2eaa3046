import { LabIcon } from "@jupyterlab/ui-components";

const svg = (paths: string) =>
  `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24"><g class="jp-icon3" fill="#616161">${paths}</g></svg>`;

// A ship on a slipway.
export const slipwayIcon = new LabIcon({
  name: "slipway:ship",
  svgstr: svg('<path d="M11 3h2v5l6 3-2 5H7l-2-5 6-3zM2 17l20 3v2L2 19z"/>'),
});

export const runCellIcon = new LabIcon({
  name: "slipway:run-cell",
  svgstr: svg('<path d="M3 4v11l8-5.5zM12 12h4v4h-4zm5 0h4v4h-4zm-5 5h4v4h-4zm5 0h4v4h-4z"/>'),
});

export const codeIcon = new LabIcon({
  name: "slipway:code",
  svgstr: svg(
    '<path d="M8.7 6.3 3 12l5.7 5.7 1.4-1.4L5.8 12l4.3-4.3zm6.6 0-1.4 1.4 4.3 4.3-4.3 4.3 1.4 1.4L21 12z"/>',
  ),
});

export const examplesIcon = new LabIcon({
  name: "slipway:examples",
  svgstr: svg('<path d="M4 3h13a3 3 0 0 1 3 3v15H7a3 3 0 0 1-3-3zm3 13v3h11v-3zM7 6v2h10V6zm0 4v2h7v-2z"/>'),
});
