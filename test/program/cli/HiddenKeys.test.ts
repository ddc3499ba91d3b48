// The real program with keys in its environment: they reach the services that they are for, and nothing that the
// program starts finds them, neither in its own environment nor in that of a process above it.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { createHash, createHmac } from "node:crypto"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { HiddenVariables, ProcessVariables, takeOver } from "../../../src/base/platform/ProcessVariables.ts"
import * as HttpServer from "../../models/provider/HttpServer.ts"
import { machine, program } from "../../support/hermes.ts"
import { protocols, type WireTurn } from "../../support/wireModel.ts"
import { cli } from "./capture.ts"

const planted = {
  ACME_LLM: "kPv93-key-env-of-a-provider-Tq",
  SIDE_DOOR: "kPv93-reference-in-the-file-Wd",
  ANTHROPIC_API_KEY: "kPv93-key-of-another-provider",
  GITHUB_TOKEN: "kPv93-token-of-a-forge-Lm",
  my_db_password: "kPv93-password-Rz",
  HERMES_LANGFUSE_SECRET_KEY: "kPv93-langfuse-Hc",
  TAVILY_API_KEY: "kPv93-search-engine-Bn",
  OTEL_EXPORTER_OTLP_HEADERS: "x-collector-key=kPv93-collector-Xs",
  PEEK_TOKEN: "kPv93-declared-by-a-plugin-Uo",
  AWS_BEARER_TOKEN_BEDROCK: "kPv93-bearer-Ge",
  AWS_SECRET_ACCESS_KEY: "kPv93-signing-key-Ya",
  AWS_SESSION_TOKEN: "kPv93-session-token-Fi"
}

const other = {
  AWS_ACCESS_KEY_ID: "AKIAEXAMPLE",
  AWS_EC2_METADATA_DISABLED: "true",
  HERMES_ACCEPT_HOOKS: "1",
  SOME_SETTING: "kPv93 is no secret here"
}

/** Names of the planted variables whose values stand in a text. */
const found = (text: string): ReadonlyArray<string> =>
  Object.entries(planted).flatMap(([name, value]) =>
    text.includes(value.replace(/^x-collector-key=/, "")) ? [name] : []
  )

/** Writes down the environment of itself and of every process above it, up to the program. */
const look = `
cat /proc/$$/environ > "$1.own"
pid=$$
while [ "$pid" -gt 1 ]; do
  pid=$(sed 's/.*) //' "/proc/$pid/stat" | cut -d' ' -f2)
  cat "/proc/$pid/environ" >> "$1.above"
  cat "/proc/$pid/environ" > "$1.program"
  if tr '\\0' ' ' < "/proc/$pid/cmdline" | grep -qF '${program}'; then touch "$1.done"; break; fi
done
`

const code = (at: (name: string) => string) => `
import { spawnSync } from "node:child_process"
import { existsSync, readFileSync, writeFileSync } from "node:fs"
spawnSync("sh", [${JSON.stringify(at("look.sh"))}, ${JSON.stringify(at("script"))}])
writeFileSync(${JSON.stringify(at("script.own"))}, readFileSync("/proc/self/environ", "latin1"))
while (!existsSync(${JSON.stringify(at("background.done"))})) await new Promise((done) => setTimeout(done, 20))
`

const peek = (at: (name: string) => string) => `
import { readFileSync, writeFileSync } from "node:fs"
export const register = () => {
  writeFileSync(${JSON.stringify(at("plugin.own"))}, JSON.stringify(process.env))
  writeFileSync(${JSON.stringify(at("plugin.above"))}, readFileSync("/proc/self/environ", "latin1"))
}
`

const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex")
const hmac = (key: string | Buffer, text: string): Buffer => createHmac("sha256", key).update(text).digest()

/** The signature that AWS would compute of a request. */
const signatureOf = ({ body, headers, method, url }: HttpServer.Received): string => {
  const [, scope = "", signed = ""] =
    /Credential=[^/]+\/([^,]+), SignedHeaders=([^,]+)/.exec(headers["authorization"] ?? "") ?? []
  const [date = "", region = "", service = "", end = ""] = scope.split("/")
  const canonical = [
    method,
    url.split("/").map(encodeURIComponent).join("/"),
    "",
    ...signed.split(";").map((name) => `${name}:${String(headers[name]).trim()}`),
    "",
    signed,
    sha256(body)
  ].join("\n")
  const text = ["AWS4-HMAC-SHA256", headers["x-amz-date"], scope, sha256(canonical)].join("\n")
  const key = [date, region, service, end].reduce<string | Buffer>(hmac, `AWS4${planted.AWS_SECRET_ACCESS_KEY}`)
  return hmac(key, text).toString("hex")
}

/** One run that starts a process in each of the ways that there are. */
const everything = (protocol: "chat_completions" | "bedrock_converse", model: (url: string) => string) =>
  Effect.gen(function* () {
    const made = yield* machine
    const { at, keep, put } = made
    const calls: ReadonlyArray<WireTurn> = [
      {
        calls: [
          { id: "c1", name: "terminal", args: JSON.stringify({ command: `sh ${at("look.sh")} ${at("command")}` }) }
        ]
      },
      {
        calls: [
          {
            id: "c2",
            name: "terminal",
            args: JSON.stringify({ command: `sh ${at("look.sh")} ${at("background")}`, background: true })
          }
        ]
      },
      { calls: [{ id: "c3", name: "execute_code", args: JSON.stringify({ language: "javascript", code: code(at) }) }] },
      { text: "All is looked at." }
    ]
    const server = yield* HttpServer.make(({ body, method, url }, response) => {
      if (url.startsWith("/v1/traces")) return HttpServer.json(response, 200, {})
      if (method !== "POST") return HttpServer.json(response, 404, { error: { message: "nothing here" } })
      const done = ["c3", "c2", "c1"].findIndex((id) => new RegExp(`"(?:tool_call_id|toolUseId)":"${id}"`).test(body))
      const turn =
        body.includes("look around") && /"tools"|"toolConfig"/.test(body)
          ? calls[done === -1 ? 0 : 3 - done]
          : undefined
      const isStreamed =
        protocol === "bedrock_converse" ? url.endsWith("converse-stream") : JSON.parse(body).stream === true
      if (isStreamed) protocols[protocol].stream(turn ?? { text: "A title" }, response)
      else HttpServer.json(response, 200, protocols[protocol].whole(turn ?? { text: "A title" }))
    })
    put("look.sh", look)
    keep("plugins/peek/plugin.yaml", "name: peek\nrequires_env: [PEEK_TOKEN]\n")
    keep("plugins/peek/index.mjs", peek(at))
    keep(
      "config.yaml",
      [
        model(server.url),
        "custom_providers:",
        `  - { name: acme, base_url: "${server.url}/v1", key_env: ACME_LLM }`,
        `  - { name: side, base_url: "${server.url}/v1", api_key: "\${SIDE_DOOR}" }`,
        "plugins: { enabled: [peek, observability/otel] }",
        `hooks: { pre_llm_call: [{ command: "sh ${at("look.sh")} ${at("hook")}" }] }`,
        `mcp_servers: { look: { command: sh, args: ["${at("look.sh")}", "${at("server")}"] } }`,
        ""
      ].join("\n")
    )
    const env = {
      ...planted,
      ...other,
      OTEL_EXPORTER_OTLP_ENDPOINT: server.url,
      OTEL_EXPORTER_OTLP_PROTOCOL: "http/json"
    }
    const ended = yield* made.hermes(["chat", "-q", "look around", "--yolo"], { env })
    assert.strictEqual(ended.code, 0, ended.stderr)
    assert.include(ended.stdout, "All is looked at.")
    const seen = (file: string): string => {
      assert.isTrue(existsSync(at(file)), `${file}, of ${readdirSync(made.cwd).join(" ")}; ${ended.stderr}`)
      return readFileSync(at(file), "latin1")
    }
    return { requests: server.requests, seen }
  })

const started = ["command", "background", "script", "hook", "server"]

describe.skipIf(process.platform !== "linux")("keys in the environment of the program", () => {
  it.live("are found by nothing that it starts, and reach the services that they are for", () =>
    Effect.gen(function* () {
      const { requests, seen } = yield* everything(
        "chat_completions",
        () => 'model: { provider: "custom:acme", default: m, context_length: 100000 }'
      )
      for (const name of started) {
        seen(`${name}.done`)
        const program = seen(`${name}.program`)
        assert.deepStrictEqual(found(program), [], `the program, seen by ${name}`)
        assert.include(program, "SOME_SETTING=kPv93 is no secret here", name)
        // Command line tools of AWS need theirs; no route of this program signs with them.
        const own = ["hook", "server"].includes(name) ? [] : ["AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"]
        for (const file of ["own", "above"]) {
          assert.deepStrictEqual(
            found(seen(`${name}.${file}`)).filter((found) => !own.includes(found)),
            [],
            `${name}.${file}`
          )
        }
        assert.deepStrictEqual(found(seen(`${name}.own`)), own, name)
      }
      assert.deepStrictEqual(found(seen("plugin.above")), [])
      assert.deepStrictEqual(found(seen("plugin.own")), ["PEEK_TOKEN"])
      const models = requests.filter(({ url }) => url === "/v1/chat/completions")
      assert.isAtLeast(models.length, 4)
      for (const { headers } of models) assert.strictEqual(headers["authorization"], `Bearer ${planted.ACME_LLM}`)
      const traces = requests.filter(({ url }) => url === "/v1/traces")
      assert.isAtLeast(traces.length, 1)
      for (const { headers } of traces) assert.strictEqual(headers["x-collector-key"], "kPv93-collector-Xs")
    })
  )

  it.live("are named in one warning where the code of a plugin names them and its manifest does not", () =>
    Effect.gen(function* () {
      const { hermes, keep } = yield* machine
      keep("plugins/peek/plugin.yaml", "name: peek\nrequires_env: [PEEK_TOKEN]\n")
      keep(
        "plugins/peek/index.mjs",
        [
          "import { token } from './lib/keys.mjs'",
          "export const register = () => { void [token, process.env.PEEK_TOKEN, process.env.SOME_SETTING, process.env.UNSET_TOKEN] }",
          ""
        ].join("\n")
      )
      keep(
        "plugins/peek/lib/keys.mjs",
        "const { GITHUB_TOKEN } = process.env\nexport const token = GITHUB_TOKEN ?? process.env['my_db_password'] ?? process.env.GITHUB_TOKEN\n"
      )
      keep("plugins/peek/node_modules/other/index.js", "process.env.ANTHROPIC_API_KEY\n")
      keep("plugins/quiet/plugin.yaml", "name: quiet\n")
      keep("plugins/quiet/index.mjs", "// GITHUB_TOKEN is not read here\nexport const register = () => {}\n")
      keep("config.yaml", "plugins: { enabled: [peek, quiet] }\n")
      const { code, stderr } = yield* hermes(["-q", "Reply exactly hello"], { env: { ...planted, ...other } })
      assert.strictEqual(code, 0, stderr)
      const warning = (name: string): string =>
        `plugin peek: its code names ${name}, which is set but kept out of process.env because it holds a secret. ` +
        "If the plugin needs it, add it to requires_env in plugin.yaml."
      const warned = stderr.split("\n").filter((line) => line.includes("plugin "))
      assert.deepStrictEqual(
        warned.map((line) => line.slice(line.indexOf("plugin "))),
        [warning("GITHUB_TOKEN"), warning("my_db_password")]
      )
      assert.deepStrictEqual(found(stderr), [])
      const nothing = yield* hermes(["-q", "Reply exactly hello"], { env: other })
      assert.notInclude(nothing.stderr, "requires_env")
    })
  )

  it.live("of .env reach a plugin whose manifest names them, and are named where it does not", () =>
    Effect.gen(function* () {
      const { at, hermes, keep, put } = yield* machine
      keep(".env", "FILE_TOKEN=kPv93-in-the-file\nOTHER_TOKEN=kPv93-of-another\nFILE_SETTING=plain\n")
      keep("plugins/peek/plugin.yaml", "name: peek\nrequires_env: [FILE_TOKEN, FILE_SETTING, UNSET_TOKEN]\n")
      keep(
        "plugins/peek/index.mjs",
        [
          "import { writeFileSync } from 'node:fs'",
          `export const register = () => writeFileSync(${JSON.stringify(at("seen.json"))}, JSON.stringify([process.env.FILE_TOKEN, process.env.OTHER_TOKEN, process.env.UNSET_TOKEN]))`,
          ""
        ].join("\n")
      )
      keep("config.yaml", "plugins: { enabled: [peek] }\n")
      const command = 'echo "seen: $FILE_TOKEN$FILE_SETTING."'
      put(
        "turns.yaml",
        JSON.stringify({ turns: [{ tool_calls: [{ name: "terminal", arguments: { command } }] }, { text: "done" }] })
      )
      const { code, stderr, stdout } = yield* hermes(["-q", "go", "--script", "turns.yaml", "--format", "stream-json"])
      assert.strictEqual(code, 0, stderr)
      assert.include(stdout, "seen: .")
      assert.deepStrictEqual(JSON.parse(readFileSync(at("seen.json"), "utf8")), ["kPv93-in-the-file", null, null])
      assert.strictEqual(stderr.split("requires_env").length, 2, stderr)
      assert.include(stderr, "its code names OTHER_TOKEN, which is set but kept out of process.env")
      assert.notInclude(stderr, "kPv93")
    })
  )

  it.live("reach the endpoint that a container asks for AWS credentials, and no command", () =>
    Effect.gen(function* () {
      const { hermes, keep } = yield* machine
      const token = "kPv93-container-Qs"
      const issued = {
        AccessKeyId: "AKIACONTAINER",
        SecretAccessKey: "issued-secret",
        Token: "issued-session",
        Expiration: "2099-01-01T00:00:00Z"
      }
      const server = yield* HttpServer.make(({ body, method, url }, response) => {
        if (url === "/credentials") return HttpServer.json(response, 200, issued)
        if (method !== "POST") return HttpServer.json(response, 404, { message: "nothing here" })
        const { bedrock_converse: protocol } = protocols
        const turn: WireTurn =
          body.includes("toolUseId") || !body.includes("toolConfig")
            ? { text: "Done." }
            : {
                calls: [
                  {
                    id: "c1",
                    name: "terminal",
                    args: JSON.stringify({ command: 'echo "seen: $AWS_CONTAINER_AUTHORIZATION_TOKEN."' })
                  }
                ]
              }
        if (url.endsWith("converse-stream")) protocol.stream(turn, response)
        else HttpServer.json(response, 200, protocol.whole(turn))
      })
      keep(
        "config.yaml",
        `model: { provider: bedrock, default: us.anthropic.claude-sonnet-4-5-20250929-v1, base_url: "${server.url}", context_length: 200000 }\n`
      )
      const env = {
        AWS_CONTAINER_CREDENTIALS_FULL_URI: `${server.url}/credentials`,
        AWS_CONTAINER_AUTHORIZATION_TOKEN: token,
        AWS_EC2_METADATA_DISABLED: "true"
      }
      const { code, stderr } = yield* hermes(["-q", "look", "--yolo"], { env })
      assert.strictEqual(code, 0, stderr)
      const asked = server.requests.filter(({ url }) => url === "/credentials")
      assert.isAtLeast(asked.length, 1)
      for (const { headers } of asked) assert.strictEqual(headers["authorization"], token)
      const models = server.requests.filter(({ url }) => url.startsWith("/model/"))
      assert.isAtLeast(models.length, 2)
      for (const { headers } of models) assert.match(headers["authorization"] ?? "", /Credential=AKIACONTAINER\//)
      const last = models.find(({ body }) => body.includes("seen: "))
      assert.include(last?.body, "seen: .")
      assert.isTrue(server.requests.every(({ body }) => !body.includes(token)))
    })
  )

  it.live("sign requests to AWS, and no command has them while they do", () =>
    Effect.gen(function* () {
      const { requests, seen } = yield* everything(
        "bedrock_converse",
        (url) =>
          `model: { provider: bedrock, default: us.anthropic.claude-sonnet-4-5-20250929-v1, base_url: "${url}", context_length: 200000 }`
      )
      for (const name of started) {
        seen(`${name}.done`)
        assert.deepStrictEqual([...found(seen(`${name}.above`)), ...found(seen(`${name}.own`))], [], name)
      }
      const models = requests.filter(({ url }) => url.startsWith("/model/"))
      assert.isAtLeast(models.length, 4)
      for (const request of models) {
        assert.match(request.headers["authorization"] ?? "", /^AWS4-HMAC-SHA256 Credential=AKIAEXAMPLE\//)
        assert.strictEqual(request.headers["x-amz-security-token"], planted.AWS_SESSION_TOKEN)
        assert.include(request.headers["authorization"] ?? "", `Signature=${signatureOf(request)}`)
      }
    })
  )
})

describe("hermes doctor", () => {
  it.live("names the keys that the system still shows to commands, and nothing where there are none", () =>
    Effect.gen(function* () {
      const { cwd, home } = yield* machine
      const doctor = (exposed: ReadonlyArray<string>) =>
        cli("doctor").pipe(
          Effect.provideService(ProcessVariables, { PATH: process.env["PATH"], HOME: cwd, HERMES_HOME: home }),
          Effect.provideService(HiddenVariables, { ...takeOver(() => false), exposed: () => exposed }),
          Effect.map(({ stdout }) => stdout.split("\n").filter((line) => /environment/.test(line)))
        )
      assert.deepStrictEqual(yield* doctor([]), [])
      const [line, ...more] = yield* doctor(["A_KEY", "B_TOKEN"])
      assert.deepStrictEqual(more, [])
      assert.include(
        line,
        `commands can read A_KEY, B_TOKEN in the environment that hermes was started with: keep keys in ${home}/.env`
      )
    })
  )
})
