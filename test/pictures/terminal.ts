// A program in tmux, for scripts that look at its screen.
import { spawnSync } from "node:child_process"
import { setTimeout } from "node:timers/promises"

/** A pane with one program. */
export interface Pane {
  /** Types text, without Enter. */
  readonly type: (text: string) => void
  /** Presses keys by their names in tmux, such as `Enter`, `Escape`, `C-o`. */
  readonly press: (...keys: ReadonlyArray<string>) => void
  /** Waits until the screen contains a text. Fails after a minute, with the screen. */
  readonly waitFor: (text: string) => Promise<void>
  /** Returns the screen, with all scrolled lines if `scrolled`, and with colours if `painted`. */
  readonly capture: (options?: { readonly scrolled?: boolean; readonly painted?: boolean }) => string
  readonly resize: (columns: number, rows: number) => void
  readonly close: () => void
}

/** Starts a command in a terminal of its own. */
export const openPane = (
  name: string,
  command: string,
  { columns, folder, rows }: { readonly columns: number; readonly rows: number; readonly folder: string }
): Pane => {
  const run = (...args: ReadonlyArray<string>): string => {
    const { status, stderr, stdout } = spawnSync("tmux", ["-L", name, ...args], { encoding: "utf8" })
    if (status !== 0) throw new Error(`tmux ${args[0]}: ${stderr}`)
    return stdout
  }
  const size = ["-x", String(columns), "-y", String(rows)]
  run("-f", "/dev/null", "new-session", "-d", ...size, "-c", folder, command)
  const pane: Pane = {
    type: (text) => void run("send-keys", "-l", text),
    press: (...keys) => void run("send-keys", ...keys),
    waitFor: async (text) => {
      for (let count = 0; count < 300; count++) {
        if (pane.capture().includes(text)) return
        await setTimeout(200)
      }
      throw new Error(`"${text}" did not appear:\n${pane.capture()}`)
    },
    capture: ({ painted = false, scrolled = false } = {}) =>
      run("capture-pane", "-p", ...(painted ? ["-e"] : []), ...(scrolled ? ["-S", "-"] : [])),
    resize: (width, height) => void run("resize-window", "-x", String(width), "-y", String(height)),
    close: () => void spawnSync("tmux", ["-L", name, "kill-server"])
  }
  return pane
}
