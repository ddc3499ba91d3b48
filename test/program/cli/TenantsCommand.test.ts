// `hermes tenants` in this process: limits, usage for bills, and the removal of a tenant's data but of no other's.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { existsSync, mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { SessionId } from "../../../src/base/domain/Ids.ts"
import { ProcessVariables } from "../../../src/base/platform/ProcessVariables.ts"
import { layerSqlite, SessionStore } from "../../../src/store/SessionStore.ts"
import { formatTenantFolder } from "../../../src/store/TenantScope.ts"
import * as SqliteTenantLedger from "../../../src/store/tenants/SqliteTenantLedger.ts"
import { machine } from "../../support/hermes.ts"
import { cli } from "./capture.ts"

const settings = `
tenants:
  acme: { per_day: { tokens: 20000, dollars: 5 }, concurrent_runs: 2 }
  zeta: {}
server:
  keys:
    alice: { key_env: ALICE, tenant: acme }
    bob: { key_env: BOB, tenant: zeta }
`

const spend = (path: string, tenant: string, model: string) =>
  Effect.scoped(
    Effect.gen(function* () {
      const ledger = yield* SqliteTenantLedger.open(path)
      yield* ledger.reserve({
        tenant,
        id: `${tenant} ${model}`,
        limits: {},
        prompt: { tokens: 100, nanos: 0 },
        outputNanos: 0,
        leastOutput: 1,
        wantedOutput: 100,
        expiresIn: 1_000,
        settled: [],
        whenHeld: "wait"
      })
      const usage = { model, calls: 1, inputTokens: 80, outputTokens: 20, nanos: 1_500_000_000 }
      const spent = { tokens: 100, nanos: usage.nanos }
      yield* ledger.settle(tenant, [{ id: `${tenant} ${model}`, usage: [usage], spent }])
    })
  )

describe("hermes tenants", () => {
  it.live("lists limits and usage, prints bills, and removes one tenant's data", () =>
    Effect.gen(function* () {
      const { home } = yield* machine
      mkdirSync(home, { recursive: true })
      writeFileSync(join(home, "config.yaml"), settings)
      const tenants = (...argv: ReadonlyArray<string>) =>
        Effect.provideService(cli("tenants", ...argv), ProcessVariables, { HOME: join(home, ".."), HERMES_HOME: home })
      assert.include((yield* tenants()).stdout, "20.0k tokens, $5.00 a day; 2 runs")
      assert.deepInclude(yield* tenants("usage"), { code: 0, stdout: "No usage.\n" })
      const path = join(home, "state.tenants.db")
      yield* spend(path, "acme", '=1+1,"x"')
      yield* spend(path, "zeta", "m")
      const sessions = layerSqlite({ path: join(home, "state.db") })
      const owners = ["api-server:alice", "mcp:alice", "api-server:bob", "api-server", "cli"]
      yield* Effect.provide(
        SessionStore.use((store) =>
          Effect.forEach(owners, (source) =>
            store.create({
              id: SessionId.make(source.replace(":", "-")),
              source,
              provider: "p",
              model: "m",
              systemPrompt: "",
              cwd: home,
              tenant: source === "cli" ? "acme" : undefined
            })
          )
        ),
        sessions
      )
      const former = { id: SessionId.make("of-former"), source: "cli", tenant: "former", cwd: home }
      yield* Effect.provide(
        SessionStore.use((store) => store.create({ ...former, provider: "p", model: "m", systemPrompt: "" })),
        sessions
      )
      // Neither the settings nor the ledger name it.
      assert.include((yield* tenants("remove", "former", "--yes")).stdout, "Deleted of former: 1 session with")
      assert.deepInclude(yield* tenants("remove", "former", "--yes"), { code: 2, stdout: "" })
      const memory = join(home, "memories", "tenants", formatTenantFolder("acme"))
      mkdirSync(memory, { recursive: true })
      writeFileSync(join(memory, "MEMORY.md"), "The harbour is blue\n")
      const job = yield* Effect.provideService(
        cli("cron", "create", "every 2h", "Report", "--name", "harbour", "--tenant", "acme"),
        ProcessVariables,
        { HOME: join(home, ".."), HERMES_HOME: home }
      )
      assert.strictEqual(job.code, 0, job.stderr)
      const unknown = yield* Effect.provideService(
        cli("cron", "create", "every 2h", "Report", "--tenant", "acne"),
        ProcessVariables,
        { HOME: join(home, ".."), HERMES_HOME: home }
      )
      assert.deepInclude(unknown, { code: 2, stderr: 'Error: no tenant "acne": did you mean "acme"?\n' })
      for (const place of ["cache/results", "changes/contents"]) {
        mkdirSync(join(home, place, "tenants", formatTenantFolder("acme"), "ab"), { recursive: true })
        writeFileSync(join(home, place, "tenants", formatTenantFolder("acme"), "ab", "x"), "The harbour is blue\n")
      }
      const csv = (yield* tenants("usage", "--csv", "--tenant", "acme")).stdout.split("\n")
      assert.strictEqual(csv[0], "day,tenant,model,calls,inputTokens,outputTokens,dollars")
      assert.match(csv[1] ?? "", /^\d{4}-\d\d-\d\d,acme,"'=1\+1,""x""",1,80,20,1\.5$/)
      assert.strictEqual(JSON.parse((yield* tenants("usage", "--json")).stdout).length, 2)
      assert.deepInclude(yield* tenants("usage", "--from", "yesterday"), {
        code: 2,
        stderr: 'Error: --from is a day such as 2026-11-29, not "yesterday"\n'
      })
      const lines = (yield* tenants("usage", "--jsonl")).stdout.trimEnd().split("\n")
      assert.deepStrictEqual(
        lines.map((line) => JSON.parse(line).tenant),
        ["acme", "zeta"]
      )
      assert.deepInclude(yield* tenants("usage", "--jsonl", "--to", "2000-01-01"), { code: 0, stdout: "" })
      for (const [problem, ...flags] of [
        ['--to is a day such as 2026-11-29, not "2026-02-30"', "--to", "2026-02-30"],
        ["--from 2026-11-02 is after --to 2026-11-01", "--from", "2026-11-02", "--to", "2026-11-01"],
        ["Pass one of --json and --csv", "--json", "--csv"]
      ])
        assert.deepInclude(yield* tenants("usage", ...flags), { code: 2, stdout: "", stderr: `Error: ${problem}\n` })
      assert.include((yield* tenants("usage", "--tenant", "acne")).stderr, 'did you mean "acme"?')
      assert.include((yield* tenants("remove", "acme")).stderr, "Pass --yes to delete the data of acme")
      assert.include((yield* tenants("remove", "acne", "--yes")).stderr, 'did you mean "acme"?')
      assert.include(
        (yield* tenants("remove", "acme", "--yes")).stdout,
        "Deleted of acme: 1 job, 3 sessions with their run records, 1 memory file, 1 long result, " +
          "1 content of a changed file and 1 row of usage."
      )
      for (const place of ["cache/results", "changes/contents", "memories"])
        assert.isFalse(existsSync(join(home, place, "tenants", formatTenantFolder("acme"))), place)
      assert.isFalse(existsSync(memory))
      assert.deepStrictEqual(
        JSON.parse((yield* tenants("usage", "--json")).stdout).map(({ tenant }: { tenant: string }) => tenant),
        ["zeta"]
      )
      const left = yield* Effect.provide(
        SessionStore.use((store) => store.list({ limit: 10 })),
        sessions
      )
      assert.sameMembers(
        left.map(({ source }) => source),
        ["api-server:bob", "api-server"]
      )
    })
  )
})
