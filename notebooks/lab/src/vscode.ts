// VS Code beside the notebook: the session has it below the server's own address.

const CODE = "slipway:code";

interface Commands<Icon> {
  addCommand(id: string, command: Command<Icon>): unknown;
}

interface Command<Icon> {
  label: (args: { isPalette?: unknown }) => string;
  caption: string;
  icon: Icon;
  execute: () => void;
}

interface Places {
  palette: { addItem(item: { command: string; category: string; args: { isPalette: boolean } }): unknown } | null;
  launcher: { add(item: { command: string; category: string; rank: number }): unknown } | null;
}

// offerCode opens VS Code in a tab of its own.
export function offerCode<Icon>(commands: Commands<Icon>, baseUrl: string, places: Places, icon: Icon): void {
  commands.addCommand(CODE, {
    label: (args) => (args.isPalette ? "Slipway: open VS Code" : "VS Code"),
    caption: "Open VS Code in a new tab",
    icon,
    execute: () => void window.open(`${baseUrl}vscode/`, "_blank", "noopener"),
  });
  places.palette?.addItem({ command: CODE, category: "Slipway", args: { isPalette: true } });
  places.launcher?.add({ command: CODE, category: "Other", rank: 10 });
}
