import type { Values } from "../../src/base/config/Settings.ts"

/** What the program shows when nobody says otherwise. */
const defaults: Values["display"] = {
  streaming: true,
  showReasoning: false,
  showCost: false,
  inlineDiffs: true,
  toolProgress: "all",
  finalResponseMarkdown: "strip",
  resumeDisplay: "full",
  busyInputMode: "queue",
  statusLine: true,
  notify: "bell",
  notifyAfterSeconds: 10,
  terminalTitle: true,
  editingMode: "emacs",
  theme: "auto",
  themes: {},
  toolPreviewLength: 0
}

/** The `display` section with some keys set. */
export const display = (changed: Partial<Values["display"]> = {}): Values["display"] => ({ ...defaults, ...changed })
