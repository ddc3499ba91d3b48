// What `hermes doctor` and the start of `hermes serve` say about the tenants of the settings.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { chmodSync, existsSync, mkdirSync } from "node:fs"
import { join } from "node:path"
import { machine, onceSaid } from "../../support/hermes.ts"
import * as inProcess from "../../support/hermesInProcess.ts"

const lines = (stdout: string) => stdout.split("\n").filter((line) => line.slice(2).startsWith("tenant"))

const config = (folder: string) => `
model: { provider: custom, default: m, base_url: "http://127.0.0.1:1/v1", api_key: key-of-this-test-0123 }
terminal: { backend: local }
tenants:
  default: { tools: [file] }
  shared: { workspace: shared, tools: [file, web_serach, hermes-cli] }
  named: { workspace: ${folder} }
  absent: { workspace: ${folder}-absent }
  unset:
    routes: [{ provider: openrouter, model: a/b, key_env: NOT_SET_KEY }]
  foreign:
    routes: [{ provider: opnrouter, model: a/b, api_key: key-of-a-tenant-0123 }]
  priced: { per_day: { dollars: 1 } }
  assumed: { per_day: { dollars: 1 }, unknown_prices: { input: 1, output: 2 } }
  known:
    per_run: { dollars: 1 }
    routes: [{ provider: anthropic, model: claude-haiku-4-5, api_key: key-of-a-tenant-0123 }]
`

describe("hermes doctor", () => {
  it.live("reports the directories, keys, routes, prices and tools of the tenants, and changes nothing", () =>
    Effect.gen(function* () {
      const { cwd, hermes, home, keep } = yield* inProcess.machine
      const folder = join(cwd, "..", "files-of-named")
      mkdirSync(folder)
      keep("config.yaml", config(folder))
      const { code, stdout } = yield* hermes(["doctor"])
      assert.strictEqual(code, 1)
      const found = lines(stdout)
      const findLine = (tenant: string, part: string) =>
        found.find((line) => line.includes(`${tenant}: `) && line.includes(part))
      const assertLine = (mark: string, tenant: string, part: string) =>
        assert.strictEqual(findLine(tenant, part)?.[0], mark, `${tenant} ${part}\n${found.join("\n")}`)
      assertLine("✓", "default", join(home, "tenants"))
      assertLine("✓", "shared", "shares the directory of the runtime")
      assertLine("!", "shared", 'there is no tool and no toolset "web_serach"')
      assertLine("!", "shared", '"hermes-cli"')
      assertLine("!", "named", "terminal and execute_code return an error without a sandbox")
      assertLine("✗", "absent", "Create it first")
      assertLine("✗", "unset", "the variable NOT_SET_KEY is not set")
      assertLine("✗", "foreign", 'unknown provider "opnrouter"')
      assertLine("✗", "priced", "the price of m of custom is unknown")
      for (const tenant of ["assumed", "known"]) assert.isUndefined(findLine(tenant, "price"), tenant)
      assert.notInclude(stdout, "key-of-a-tenant")
      assert.isFalse(existsSync(join(home, "tenants")))
      chmodSync(folder, 0o500)
      const isRoot = process.getuid?.() === 0
      const again = lines((yield* hermes(["doctor"])).stdout).find((line) => line.includes("named: "))
      chmodSync(folder, 0o700)
      if (!isRoot) assert.include(again, "which is not writable")
    })
  )
})

describe("hermes serve", () => {
  it.live(
    "warns at its start about tools that do not exist, workspaces that cannot be used, and missing plugins",
    () =>
      Effect.gen(function* () {
        const { hermes, keep } = yield* machine
        keep(
          "config.yaml",
          `
model: { provider: offline, default: m }
plugins: { enabled: [nothing] }
tenants:
  acme: { tools: [file, read_fil], workspace: /absent/of/acme }
  zeta:
    routes: [{ provider: my-cloud, model: big, api_key: key-of-a-tenant-0123 }]
`
        )
        const { stderr } = yield* hermes(["serve", "--port", "0"], {
          onOutput: onceSaid("Serving the agent", (child) => child.kill("SIGINT"))
        })
        assert.match(
          stderr,
          /tenant acme: tools: there is no tool and no toolset "read_fil", .*did you mean "read_file"/u
        )
        assert.match(stderr, /tenant acme: the workspace of tenant acme cannot be used: \/absent\/of\/acme/u)
        assert.include(stderr, 'tenant zeta: routes: unknown provider "my-cloud"')
        assert.notInclude(stderr, "sandbox")
        assert.notInclude(stderr, "key-of-a-tenant")
      }),
    { timeout: 60_000 }
  )
})
