// `hermes` as the client of a server of the conformance suite, whose address is the last argument: it connects and lists the tools,
// and in a scenario that calls one, an agent does so.
import { spawnSync } from "node:child_process"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { program, withoutSandbox } from "../support/hermes.ts"

const url = process.argv.at(-1) ?? ""
const model = process.env["INTEROP_MODEL"] ?? ""
const root = mkdtempSync(join(tmpdir(), "hermes-mcp-client-"))
const home = join(root, ".hermes")
mkdirSync(home)
writeFileSync(join(home, "config.yaml"), [
  "model:", "  provider: custom", "  default: m", `  base_url: ${model}`, "  api_key: upstream", "  context_length: 100000",
  "mcp_servers:", "  it:", `    url: ${url}`
].join("\n"))
const args = process.env["MCP_CONFORMANCE_SCENARIO"] === "initialize" ? ["mcp", "test", "it"] : ["--yolo", "-q", "use the tool"]
const { status } = spawnSync(process.execPath, [program, ...args], { cwd: root, env: { PATH: process.env["PATH"], HOME: root, HERMES_HOME: home, ...withoutSandbox }, stdio: "inherit" })
rmSync(root, { recursive: true, force: true })
process.exitCode = status ?? 1
