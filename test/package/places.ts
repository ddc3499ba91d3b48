// Places without Node: Cloudflare Workers without `nodejs_compat`, and Chromium.
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import { readFileSync } from "node:fs"
import { launch } from "../browser/browser.ts"
import { loop, loopAnswer, models, offline } from "./programs.ts"
import { expect, makeWorkspace, releases, run, runNode, type Workspace } from "./workspace.ts"

const bundle = ({ modules, path, write }: Workspace, entry: string, conditions: string): string => {
  write("offline.js", offline)
  write("models.js", models)
  write("loop.js", loop)
  const out = join(path, "out", entry)
  run(
    join(modules, "esbuild/bin/esbuild"),
    [
      entry,
      "--bundle",
      "--format=esm",
      "--platform=browser",
      `--conditions=${conditions}`,
      "--log-level=warning"
    ].concat(`--outfile=${out}`),
    path
  )
  return out
}

/** The loop runs in workerd, with our own provider, a stream and a tool. */
export const checkWorkers = (): void => {
  const workspace = makeWorkspace("workers", ["miniflare@4", releases.esbuild, releases.openai])
  workspace.write(
    "worker.js",
    `import { answer } from "./loop.js"
export default { fetch: async () => new Response(await answer().catch((error) => error.stack)) }
`
  )
  const script = bundle(workspace, "worker.js", "workerd,worker,browser")
  workspace.write(
    "run.js",
    `import { readFileSync } from "node:fs"
import { Miniflare } from "miniflare"
const modules = [{ type: "ESModule", path: "worker.js", contents: readFileSync(${JSON.stringify(script)}, "utf8") }]
const miniflare = new Miniflare({ modules, compatibilityDate: "2026-07-01" })
console.log(await (await miniflare.dispatchFetch("http://localhost/")).text())
await miniflare.dispose()
`
  )
  expect("the loop runs in workerd", runNode(["run.js"], workspace.path), `${loopAnswer}\n`)
}

/** MSW answers the requests of a provider that sends with the global `fetch`. */
export const checkMsw = (): void => {
  const workspace = makeWorkspace("msw", ["msw@2", releases.openai])
  workspace.write(
    "run.js",
    `import { http, HttpResponse } from "msw"
import { setupServer } from "msw/node"
import { createHermes } from "hermes-effect/promise"
const answer = { choices: [{ index: 0, message: { role: "assistant", content: "mocked" }, finish_reason: "stop" }] }
const server = setupServer(
  http.get("http://models.test/v1/models", () => HttpResponse.json({ data: [] })),
  http.post("http://models.test/v1/chat/completions", () => HttpResponse.json(answer))
)
server.listen({ onUnhandledRequest: "error" })
const model = { model: "m", baseUrl: "http://models.test/v1" }
const hermes = createHermes({ model, fetch: (input, init) => globalThis.fetch(input, init) })
console.log((await hermes.run("Hello?")).text)
await hermes.dispose()
server.close()
`
  )
  expect("MSW answers in tests", runNode(["run.js"], workspace.path), "mocked\n")
}

/** The loop runs in a page. */
export const checkBrowser = async (): Promise<void> => {
  const workspace = makeWorkspace("browser", [releases.esbuild, releases.openai])
  workspace.write("page.js", `import { answer } from "./loop.js"\nglobalThis.answer = answer()\n`)
  const script = bundle(workspace, "page.js", "browser")
  const server = createServer(({ url }, response) => {
    if (url === "/page.js") response.setHeader("content-type", "text/javascript").end(readFileSync(script))
    else response.setHeader("content-type", "text/html").end(`<script type="module" src="/page.js"></script>`)
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  const browser = await launch()
  try {
    const page = await browser.newPage()
    // A server that listens on a port has an address.
    await page.goto(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`)
    await page.waitForFunction("globalThis.answer !== undefined")
    expect("the loop runs in Chromium", String(await page.evaluate("globalThis.answer")), loopAnswer)
  } finally {
    await browser.close()
    server.close()
  }
}
