// `npm run screens [FOLDER] [TOUR…]`: plays the tasks of a user in terminals of 50, 80 and 120 columns, and writes each
// screen as text, and as a picture beside it, into a folder (default: `dist/screens`), for people to look at. A task whose
// text does not appear is reported and ends the program with 1.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout } from "node:timers/promises"
import { root } from "../support/sources.ts"
import { renderScreen } from "./ansiSvg.ts"
import { playPrompts, startModel } from "./model.ts"
import { answers, type Tour, tours } from "./tasks.ts"
import { openPane, type Pane } from "./terminal.ts"

const [folder = join(root, "dist/screens"), ...names] = process.argv.slice(2)
const rows = 40

const invoice = `/** Total of an invoice in cents. */
export const total = (lines: ReadonlyArray<{ readonly cents: number; readonly count: number }>): number =>
  lines.reduce((sum, { cents }) => sum + cents, 0)
`

/** A red square of 8 × 8 pixels. */
const square = "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEklEQVR4nGP4z8CAFWEXHbQSACj/P8Fu7N9hAAAAAElFTkSuQmCC"

const prepareHome = (model: string): { readonly home: string; readonly project: string } => {
  const home = mkdtempSync(join(tmpdir(), "hermes-screens-"))
  const project = join(home, "shop")
  mkdirSync(join(home, ".hermes"))
  mkdirSync(project)
  writeFileSync(join(project, "invoice.ts"), invoice)
  writeFileSync(join(project, "invoice.test.ts"), `import { total } from "./invoice.ts"\n`)
  writeFileSync(join(project, "red.png"), Buffer.from(square, "base64"))
  writeFileSync(
    join(home, ".hermes/config.yaml"),
    `model: { provider: custom, default: claude-sonnet-4-6, base_url: "${model}", api_key: none }
display: { theme: dark }
terminal: { backend: local }
`
  )
  return { home, project }
}

/** Returns the screen after it has not changed for half a second. */
const waitUntilStill = async (pane: Pane): Promise<void> => {
  let before = ""
  let still = 0
  for (let count = 0; count < 40 && still < 3; count++) {
    await setTimeout(170)
    const now = pane.capture()
    still = now === before ? still + 1 : 0
    before = now
  }
}

const playTour = async ({ name, play, words = "" }: Tour, columns: number): Promise<void> => {
  const model = await startModel(playPrompts(answers))
  const { home, project } = prepareHome(model.url)
  const program = `${process.execPath} ${join(root, "src/bin.js")} ${words}`
  // A shell remains after the program, so that its last lines can be looked at.
  const command = `env HOME=${home} HERMES_TRUST_FOLDER=${project} COLORTERM=truecolor PS1='$ ' sh -c '${program}; exec sh'`
  const pane = openPane(`screens-${columns}-${name}`, command, { columns, rows, folder: project })
  let count = 0
  const show = async (title: string): Promise<void> => {
    await waitUntilStill(pane)
    count += 1
    const file = join(folder, String(columns), `${name}-${String(count).padStart(2, "0")}-${title}`)
    const text = pane.capture()
    writeFileSync(`${file}.txt`, text.trimEnd() + "\n")
    writeFileSync(`${file}.svg`, renderScreen(pane.capture({ painted: true }), columns, title))
  }
  const send = (line: string): void => {
    pane.type(line)
    pane.press("Enter")
  }
  const leave = async (): Promise<void> => {
    pane.press("Escape")
    await setTimeout(1000)
  }
  try {
    await pane.waitFor("›")
    await play({ pane, send, show, leave, columns })
    writeFileSync(
      join(folder, String(columns), `${name}-scrolled.txt`),
      pane.capture({ scrolled: true }).trimEnd() + "\n"
    )
  } finally {
    pane.close()
    // The program stores its session while it ends.
    await setTimeout(2000)
    model.close()
    rmSync(home, { recursive: true, force: true })
  }
}

for (const columns of [50, 80, 120]) {
  mkdirSync(join(folder, String(columns)), { recursive: true })
  for (const tour of tours) {
    if (names.length > 0 && !names.includes(tour.name)) continue
    await playTour(tour, columns).catch((error: unknown) => {
      process.exitCode = 1
      process.stderr.write(`${tour.name}, ${columns} columns: ${String(error)}\n`)
    })
    process.stdout.write(`${columns} ${tour.name}\n`)
  }
}
