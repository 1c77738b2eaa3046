// Runs a cell of a notebook as a job: puts %%grid above its code, so that the notebook says what it does, and runs it.

export type Prepared = { code: string } | { problem: string };

// prepare gives the code of a cell as it is to be run; a problem where it cannot be a job.
export function prepare(code: string): Prepared {
  if (!code.trim()) return { problem: "The cell is empty. Write code in it first." };
  const magic = /^\s*%%(\S+)/.exec(code)?.[1];
  if (magic === "grid") return { code };
  if (magic) {
    return { problem: `The cell begins with %%${magic}, and a cell has one such line. Remove that line first.` };
  }
  return { code: `%%grid\n${code}` };
}

// LOAD gives the notebook its magics, once.
export const LOAD = "%load_ext slipway";

export const NO_SLIPWAY =
  "The kernel of this notebook has no Slipway. Choose a Python kernel of this session, " +
  "or install it there: %pip install 'slipway[notebook]'";
