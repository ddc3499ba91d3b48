// The content of a submission: what goes along, what does not, and what a runner makes of it.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { AgentFile } from "../../../src/base/config/AgentFile.ts"
import * as Config from "../../../src/base/config/Config.ts"
import { Environment, make as makeEnvironment } from "../../../src/base/config/Environment.ts"
import * as Json from "../../../src/base/domain/Json.ts"
import { make as makeSecrets, Secrets } from "../../../src/base/domain/Secrets.ts"
import * as SubmittedAgent from "../../../src/serve/cluster/SubmittedAgent.ts"

const textOf = Effect.fnUntraced(function* (
  file: Json.Fields,
  {
    agentFile,
    prefill,
    variables = {}
  }: {
    readonly agentFile?: AgentFile
    readonly prefill?: string
    readonly variables?: Readonly<Record<string, string>>
  } = {}
) {
  const environment = makeEnvironment(variables)
  const { settings } = yield* Config.resolve({ file, environment, flags: [], agent: agentFile?.settings })
  return yield* Effect.provideService(
    SubmittedAgent.buildContent(settings, agentFile, prefill),
    Environment,
    environment
  )
})

const agentOf = (given: Partial<AgentFile>): AgentFile => ({
  file: { name: "/home/me/clerk.yaml", folder: "/home/me", text: Effect.succeed("") },
  name: "clerk",
  description: undefined,
  systemPrompt: undefined,
  systemPromptSuffix: undefined,
  settings: [],
  temperature: undefined,
  tools: undefined,
  middlewares: [],
  subAgents: [],
  ...given
})

describe("SubmittedAgent", () => {
  it.effect("settings go along that are not the usual ones and that a submission may make; keys never do", () =>
    Effect.gen(function* () {
      const text = yield* textOf(
        {
          model: { provider: "lab", default: "m1", api_key: "sk-0123456789abcdef" },
          custom_providers: [{ name: "lab", base_url: "http://lab/v1", api_key: "sk-fedcba9876543210" }],
          fallback_providers: [{ provider: "openrouter", model: "m2", api_key: "sk-aaaabbbbccccdddd" }],
          agent: { max_turns: 7 },
          provider_routing: { sort: "price" },
          approvals: { mode: "off" },
          terminal: { backend: "local" }
        },
        { prefill: "[]" }
      )
      const { prefill, settings, version } = Json.readFields(Json.parseOrKeep(text))
      assert.deepStrictEqual([version, prefill], [1, "[]"])
      assert.deepStrictEqual(
        Object.fromEntries(
          Json.readItems(settings).map((one) => [Json.readFields(one)["key"], Json.readFields(one)["value"]])
        ),
        {
          "model.provider": "lab",
          "model.default": "m1",
          "agent.max_turns": 7,
          "provider_routing.sort": "price",
          fallback_providers: [{ provider: "openrouter", model: "m2" }]
        }
      )
      // A provider that is found by a key goes along by its name, so that another machine takes the same.
      const found = yield* SubmittedAgent.readContent(
        yield* textOf(
          { model: { default: "openai/gpt-5-mini" } },
          { variables: { OPENROUTER_API_KEY: "sk-or-0123456789abcdef" } }
        ),
        "/f"
      )
      assert.strictEqual(found.flags.find(({ key }) => key === "model.provider")?.value, "openrouter")
      assert.deepStrictEqual((yield* SubmittedAgent.readContent(yield* textOf({}), "/f")).flags, [])
    })
  )

  it.effect("an agent file comes back as it was, with its sub-agents and without keys", () =>
    Effect.gen(function* () {
      const below = agentOf({
        name: "helper",
        systemPrompt: "Help.",
        settings: [
          { name: "helper.yaml", key: "model.default", value: "m3" },
          { name: "helper.yaml", key: "model.api_key", value: "sk-0123" }
        ]
      })
      const agentFile = agentOf({
        systemPrompt: "You are the clerk.",
        systemPromptSuffix: "Be brief.",
        temperature: 0.5,
        tools: ["todo"],
        middlewares: [{ import: "long-tool-output", params: { max_output_chars: 10 } }],
        subAgents: [{ name: "helper", agent: below }]
      })
      const restored =
        (yield* SubmittedAgent.readContent(yield* textOf({}, { agentFile }), "/f")).agentFile ?? assert.fail()
      const { file, settings: _, subAgents, ...same } = restored
      const { file: _file, settings: _settings, subAgents: _below, ...expected } = agentFile
      assert.deepStrictEqual(same, expected)
      assert.deepStrictEqual(
        [file.folder, subAgents[0]?.name, subAgents[0]?.agent.systemPrompt],
        ["/f", "helper", "Help."]
      )
      assert.deepStrictEqual(
        subAgents[0]?.agent.settings.map(({ key, value }) => [key, value]),
        [["model.default", "m3"]]
      )
    })
  )

  it.effect("what is of this machine, or secret, is refused in one line", () =>
    Effect.gen(function* () {
      const secrets = makeSecrets()
      secrets.add("sk-live-9f8e7d6c5b4a3210ffff")
      const refused = (agentFile: Partial<AgentFile>, prefill?: string) =>
        textOf({}, { agentFile: agentOf(agentFile), ...(prefill === undefined ? {} : { prefill }) }).pipe(
          Effect.provideService(Secrets, secrets),
          Effect.flip,
          Effect.map(({ message }) => message)
        )
      assert.match(
        yield* refused({ middlewares: [{ import: "./audit.ts" }] }),
        /^\/home\/me\/clerk\.yaml: middleware \.\/audit\.ts is code of this machine: /
      )
      assert.match(
        yield* refused({
          settings: [
            { name: "/home/me/clerk.yaml: mcp_servers[0]", key: "mcp_servers.files", value: { command: "serve" } }
          ]
        }),
        /^\/home\/me\/clerk\.yaml: mcp_servers\[0\] is a program or address of this machine: /
      )
      for (const [prompt, prefill] of [
        ["The key is sk-live-9f8e7d6c5b4a3210ffff.", undefined],
        ["Hello", '["sk-live-9f8e7d6c5b4a3210ffff"]']
      ] as const) {
        assert.match(
          yield* refused({ systemPrompt: prompt }, prefill),
          /^the submission would carry a secret: keys stay on their machine; /
        )
      }
    })
  )

  it.effect("a runner refuses another form, other settings and middleware that it has not", () =>
    Effect.gen(function* () {
      const refused = (form: Json.Fields) =>
        Effect.map(Effect.flip(SubmittedAgent.readContent(JSON.stringify(form), "/f")), ({ message }) => message)
      assert.strictEqual(
        yield* refused({ version: 2, settings: [] }),
        "the submission has form 2, this runner reads 1: submit with the version of the runners"
      )
      for (const key of ["approvals.mode", "model.api_key", "mcp_servers.x", "hooks", "cluster.database_url"]) {
        assert.match(
          yield* refused({ version: 1, settings: [{ key, value: "x" }] }),
          /^the submission cannot be read: /,
          key
        )
      }
      assert.match(
        yield* refused({
          version: 1,
          settings: [],
          agent: { name: "a", middlewares: [{ import: "./x.ts" }], settings: [], subAgents: [] }
        }),
        /^this version has no middleware "\.\/x\.ts"/
      )
    })
  )
})
