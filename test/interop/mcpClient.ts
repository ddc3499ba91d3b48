// `hermes` as the client of a server of the conformance suite, whose address is the last argument: it connects and lists the tools,
// and in a scenario that calls one, an agent does so. Where it wants a login, this script is the browser.
import { spawn } from "node:child_process"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { program, withoutSandbox } from "../support/hermes.ts"

const url = process.argv.at(-1) ?? ""
const model = process.env["INTEROP_MODEL"] ?? ""
const scenario = process.env["MCP_CONFORMANCE_SCENARIO"] ?? ""
const isLogin = scenario.startsWith("auth/")
const { client_id: clientId, client_secret: clientSecret }: Readonly<Record<string, string | undefined>> = JSON.parse(process.env["MCP_CONFORMANCE_CONTEXT"] ?? "{}")
const oauth = clientId === undefined ? ["    oauth: true"] : ["    oauth:", `      client_id: ${clientId}`, `      client_secret: ${clientSecret}`]
const root = mkdtempSync(join(tmpdir(), "hermes-mcp-client-"))
const home = join(root, ".hermes")
mkdirSync(home)
writeFileSync(join(home, "config.yaml"), [
  "model:", "  provider: custom", "  default: m", `  base_url: ${model}`, "  api_key: upstream", "  context_length: 100000",
  "mcp_servers:", "  it:", `    url: ${url}`, ...isLogin ? oauth : []
].join("\n"))

const hermes = (args: ReadonlyArray<string>): Promise<number> =>
  new Promise((resolve) => {
    const env = { PATH: process.env["PATH"], HOME: root, HERMES_HOME: home, ...withoutSandbox }
    const child = spawn(process.execPath, [program, ...args], { cwd: root, env, stdio: ["ignore", "inherit", "pipe"] })
    let said = ""
    let isOpened = false
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      process.stderr.write(text)
      said += text
      const page = /^ {2}(http\S+)\n/mu.exec(said)?.[1]
      if (page === undefined || isOpened) return
      isOpened = true
      // The server of the suite sends its user back at once.
      void fetch(page).then((response) => response.text())
    })
    child.once("close", (code) => resolve(code ?? 1))
  })

const use = ["--yolo", "-q", "use the tool"]
const steps = isLogin ? [["mcp", "login", "it"], use] : [scenario === "initialize" ? ["mcp", "test", "it"] : use]
let code = 0
for (const args of steps) if (code === 0) code = await hermes(args)
rmSync(root, { recursive: true, force: true })
process.exitCode = code
