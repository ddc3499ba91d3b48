// `hermes` as the client of a server of the conformance suite, whose address is the last argument: it connects and
// lists the tools, and in a scenario that calls one, an agent does so. Where it wants a login, this script is the
// browser; where it asks the user, it is an editor whose user takes what is proposed.
import { spawn } from "node:child_process"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Readable, Writable } from "node:stream"
import * as acpEditor from "../support/acpEditor.ts"
import { program, withoutSandbox } from "../support/hermes.ts"

const url = process.argv.at(-1) ?? ""
const model = process.env["INTEROP_MODEL"] ?? ""
const scenario = process.env["MCP_CONFORMANCE_SCENARIO"] ?? ""
const isLogin = scenario.startsWith("auth/")
const context: Readonly<Record<string, string | undefined>> = JSON.parse(process.env["MCP_CONFORMANCE_CONTEXT"] ?? "{}")
const oauth: Readonly<Record<string, string | undefined>> = {
  client_id: context["client_id"],
  client_secret: context["client_secret"],
  private_key: context["private_key_pem"],
  signing_algorithm: context["signing_algorithm"],
  grant: scenario.startsWith("auth/client-credentials") ? "client_credentials" : undefined,
  client_metadata_url:
    scenario === "auth/basic-cimd" ? "https://conformance-test.local/client-metadata.json" : undefined
}
const set = Object.entries(oauth).flatMap(([name, value]) =>
  value === undefined ? [] : [`      ${name}: ${JSON.stringify(value)}`]
)
const root = mkdtempSync(join(tmpdir(), "hermes-mcp-client-"))
const home = join(root, ".hermes")
mkdirSync(home)
writeFileSync(
  join(home, "config.yaml"),
  [
    "model:",
    "  provider: custom",
    "  default: m",
    `  base_url: ${model}`,
    "  api_key: upstream",
    "  context_length: 100000",
    "mcp_servers:",
    "  it:",
    `    url: ${url}`,
    ...(!isLogin ? [] : set.length === 0 ? ["    oauth: true"] : ["    oauth:", ...set])
  ].join("\n")
)
const env = { PATH: process.env["PATH"], HOME: root, HERMES_HOME: home, ...withoutSandbox }

const hermes = (args: ReadonlyArray<string>): Promise<number> =>
  new Promise((resolve) => {
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

/** An editor without forms, whose user approves and takes each default. */
const edit = async (): Promise<number> => {
  const child = spawn(process.execPath, [program, "acp"], { cwd: root, env, stdio: ["pipe", "pipe", "inherit"] })
  const ended = new Promise<number>((resolve) => child.once("close", (code) => resolve(code ?? 1)))
  // The streams of Node have the types of the web by their own declarations.
  const editor = acpEditor.make(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout) as ReadableStream<Uint8Array>)
  editor.choose(
    ({ options }) => (options.find(({ name }) => name.startsWith("Use the default")) ?? options[0])?.optionId
  )
  await editor.ask("initialize", { protocolVersion: 1, clientCapabilities: {} })
  const { sessionId } = await editor.ask("session/new", { cwd: root, mcpServers: [] })
  await editor.ask("session/prompt", { sessionId, prompt: acpEditor.say("use the tool") })
  await editor.hangUp()
  return ended
}

const login = () => hermes(["mcp", "login", "it"])
const use = () => hermes(["--yolo", "-q", "use the tool"])
const stepsOf = (): ReadonlyArray<() => Promise<number>> => {
  if (scenario === "initialize") return [() => hermes(["mcp", "test", "it"])]
  if (scenario.startsWith("elicitation")) return [edit]
  // The tool of this one wants more rights than the list of tools.
  if (scenario === "auth/scope-step-up") return [login, use, login, use]
  return isLogin && oauth["grant"] === undefined ? [login, use] : [use]
}

let code = 0
for (const step of stepsOf()) if (code === 0) code = await step()
rmSync(root, { recursive: true, force: true })
process.exitCode = code
