// `npm run pictures`: writes the pictures of the README into `scratchpad/guides/images`. The terminal is the program with
// a model that plays a script, in tmux; the studio is its page with the sessions of its tests, in Chromium.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout } from "node:timers/promises"
import * as Browsers from "../browser/browser.ts"
import * as StandIn from "../browser/standIn.ts"
import { root } from "../support/sources.ts"
import { renderScreen } from "./ansiSvg.ts"
import { playAnswers, startModel } from "./model.ts"
import { openPane } from "./terminal.ts"

const images = join(root, "scratchpad/guides/images")
const columns = 96

const invoice = `/** Total of an invoice in cents. */
export const total = (lines: ReadonlyArray<{ readonly cents: number; readonly count: number }>): number =>
  lines.reduce((sum, { cents }) => sum + cents, 0)
`
const check = `import assert from "node:assert"
import { test } from "node:test"
import { total } from "./invoice.ts"

test("counts every piece", () => assert.equal(total([{ cents: 250, count: 3 }]), 750))
`

const answers = [
  { text: "I look at the code first.", calls: [{ name: "read_file", arguments: { path: "invoice.ts" } }] },
  {
    text: "The count of a line is ignored.",
    calls: [
      {
        name: "patch",
        arguments: {
          path: "invoice.ts",
          old_string: "(sum, { cents }) => sum + cents, 0)",
          new_string: "(sum, { cents, count }) => sum + cents * count, 0)"
        }
      }
    ]
  },
  { text: "", calls: [{ name: "terminal", arguments: { command: "node --test" } }] },
  { text: "The total **ignored the count** of each line: `invoice.ts` now multiplies it, and the test passes." }
]

const takeTerminal = async (): Promise<string> => {
  const home = mkdtempSync(join(tmpdir(), "hermes-pictures-"))
  const project = join(home, "shop")
  mkdirSync(join(home, ".hermes"))
  mkdirSync(project)
  writeFileSync(join(project, "invoice.ts"), invoice)
  writeFileSync(join(project, "invoice.test.ts"), check)
  const model = await startModel(playAnswers(answers))
  writeFileSync(
    join(home, ".hermes/config.yaml"),
    `model: { provider: custom, default: claude-sonnet-4-6, base_url: "${model.url}", api_key: none }
display: { theme: dark }
terminal: { backend: local }
permissions: { allow: ["terminal(node --test)"] }
`
  )
  const command = `env HOME=${home} HERMES_TRUST_FOLDER=${project} COLORTERM=truecolor ${process.execPath} ${join(root, "src/bin.js")}`
  const pane = openPane("pictures", command, { columns, rows: 40, folder: project })
  try {
    await pane.waitFor("›")
    pane.type("The total of an invoice is wrong. Find out why and fix it.")
    pane.press("Enter")
    await pane.waitFor("the test passes")
    await setTimeout(1500)
    return pane.capture({ painted: true })
  } finally {
    pane.close()
    model.close()
    rmSync(home, { recursive: true, force: true })
  }
}

const takeStudio = async (): Promise<Uint8Array> => {
  const browser = await Browsers.launch()
  const studio = await StandIn.serve(false)
  try {
    const options = { width: 1280, height: 720, from: studio.url }
    const { page } = await Browsers.open(browser, `${studio.url}#/session/demo`, { ...options, scheme: "light" })
    await page.locator(".sessionHead").first().waitFor()
    await setTimeout(1000)
    return await page.screenshot()
  } finally {
    await browser.close()
    await studio.close()
  }
}

mkdirSync(images, { recursive: true })
writeFileSync(join(images, "terminal.svg"), renderScreen(await takeTerminal(), columns, "hermes in a terminal"))
writeFileSync(join(images, "studio.png"), await takeStudio())
process.stdout.write(`${images}\n`)
