// The example of a deployment: its files say what the program reads and has.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { parse, parseAllDocuments } from "yaml"
import * as Config from "../../../src/base/config/Config.ts"
import { make as environmentOf } from "../../../src/base/config/Environment.ts"
import * as Json from "../../../src/base/domain/Json.ts"
import * as Directory from "../../../src/models/routing/ProviderDirectory.ts"
import { machine } from "../../support/hermes.ts"
import { root } from "../../support/sources.ts"

const textOf = (name: string): string => readFileSync(join(root, "scratchpad/cluster", name), "utf8")
const at = (value: unknown, ...path: ReadonlyArray<string | number>): unknown =>
  path.reduce<unknown>(
    (value, key) => (typeof key === "number" ? Json.readItems(value)[key] : Json.readFields(value)[key]),
    value
  )

/** Variables that the files set for a runner: references of its settings, and keys that a provider is known by. */
const isRead = (name: string, settings: string): boolean =>
  settings.includes(`\${${name}}`) || Directory.entries.some(({ keyVariables }) => keyVariables.includes(name))

/** Settings of a file under the variables that stand beside it: no error and no warning. */
const loads = Effect.fnUntraced(function* (text: string, variables: ReadonlyArray<string>) {
  const environment = environmentOf(
    Object.fromEntries(
      variables.map((name) => [name, name === "HERMES_DATABASE_URL" ? "postgres://a:b@c/d" : "sk-or-0123456789abcdef"])
    )
  )
  const { refusals, settings, warnings } = yield* Config.resolve({ file: parse(text), environment, flags: [] })
  assert.deepStrictEqual([warnings, refusals], [[], []])
  assert.isDefined(settings.cluster.databaseUrl)
  for (const name of variables) assert.isTrue(isRead(name, text), `${name} is read by nobody`)
  return settings
})

/** Commands of the program in a text. */
const commandsIn = (text: string): ReadonlyArray<string> =>
  Array.from(text.matchAll(/hermes (?:lab )?(cluster|batch) ([a-z]+)/g), ([, group, name]) => `${group} ${name}`)

describe("the example of a deployment", () => {
  it.effect("compose: services, variables that are read, a runner without rights", () =>
    Effect.gen(function* () {
      const compose = parse(textOf("compose.yaml"))
      const services = Json.readFields(at(compose, "services"))
      assert.deepStrictEqual(Object.keys(services).toSorted(), ["database", "runner"])
      for (const [name, service] of Object.entries(services)) {
        assert.isTrue(at(service, "image") !== undefined || at(service, "build") !== undefined, name)
        for (const volume of Json.readItems(at(service, "volumes"))) {
          const [source = ""] = String(volume).split(":")
          assert.isTrue(
            source.startsWith(".")
              ? textOf(source) !== ""
              : Object.hasOwn(Json.readFields(at(compose, "volumes")), source),
            String(volume)
          )
        }
        for (const other of Object.keys(Json.readFields(at(service, "depends_on"))))
          assert.isDefined(at(services[other], "healthcheck"), other)
      }
      const runner = services["runner"]
      yield* loads(textOf("config.yaml"), Object.keys(Json.readFields(at(runner, "environment"))))
      // The address names the service and the user of the database.
      const environment = Json.readFields(at(services["database"], "environment"))
      assert.strictEqual(
        at(runner, "environment", "HERMES_DATABASE_URL"),
        `postgres://${Json.readWord(environment["POSTGRES_USER"])}:\${POSTGRES_PASSWORD}@database:5432/${Json.readWord(environment["POSTGRES_DB"])}`
      )
      assert.deepStrictEqual(
        [at(runner, "read_only"), at(runner, "tmpfs"), at(runner, "cap_drop")],
        [true, ["/tmp"], ["ALL"]]
      )
    })
  )

  it.effect("Kubernetes: what each kind needs, names that exist, time to drain, no rights", () =>
    Effect.gen(function* () {
      const documents = parseAllDocuments(textOf("kubernetes.yaml")).map((document) => {
        assert.deepStrictEqual(document.errors, [])
        return document.toJS() as unknown
      })
      const of = (kind: string) => documents.find((document) => at(document, "kind") === kind) ?? assert.fail(kind)
      for (const document of documents) {
        for (const path of [["apiVersion"], ["kind"], ["metadata", "name"]]) assert.isString(at(document, ...path))
      }
      const secret = of("Secret")
      const variables = Object.entries(Json.readFields(at(secret, "stringData")))
      for (const [name, value] of variables) assert.isString(value, name)
      const settings = yield* loads(
        String(at(of("ConfigMap"), "data", "config.yaml")),
        variables.map(([name]) => name)
      )
      const deployment = of("Deployment")
      assert.strictEqual(at(deployment, "apiVersion"), "apps/v1")
      const template = at(deployment, "spec", "template")
      assert.deepStrictEqual(at(deployment, "spec", "selector", "matchLabels"), at(template, "metadata", "labels"))
      const pod = at(template, "spec")
      assert.deepStrictEqual(
        [at(pod, "securityContext", "runAsNonRoot"), at(pod, "automountServiceAccountToken")],
        [true, false]
      )
      assert.isAbove(Number(at(pod, "securityContext", "runAsUser")), 0)
      // A drained runner may take all of its time, and a little more to end.
      assert.isAbove(Number(at(pod, "terminationGracePeriodSeconds")), settings.cluster.drainTimeoutSeconds + 30)
      const volumes = Json.readItems(at(pod, "volumes"))
      for (const container of Json.readItems(at(pod, "containers"))) {
        assert.isString(at(container, "name"))
        assert.match(String(at(container, "image")), /:\d+\.\d+\.\d+$/)
        assert.deepStrictEqual(at(container, "securityContext"), {
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ["ALL"] }
        })
        assert.deepStrictEqual(
          Json.readItems(at(container, "envFrom")).map((from) => at(from, "secretRef", "name")),
          [at(secret, "metadata", "name")]
        )
        assert.deepStrictEqual(
          Json.readItems(at(container, "volumeMounts"))
            .map((mount) => String(at(mount, "name")))
            .toSorted(),
          volumes.map((volume) => String(at(volume, "name"))).toSorted()
        )
        assert.isDefined(at(container, "readinessProbe", "exec", "command"))
        assert.isDefined(at(container, "resources", "limits", "memory"))
      }
      assert.strictEqual(
        at(
          volumes.find((volume) => at(volume, "name") === "settings"),
          "configMap",
          "name"
        ),
        at(of("ConfigMap"), "metadata", "name")
      )
    })
  )

  it("the image runs the program without rights, and says if its runner is at work", () => {
    const lines = textOf("Dockerfile")
      .split("\n")
      .filter((line) => line !== "" && !line.startsWith("#"))
    const last = (word: string): string =>
      lines.findLast((line) => line.startsWith(`${word} `))?.slice(word.length + 1) ?? assert.fail(word)
    assert.deepStrictEqual(
      [last("USER"), last("ENTRYPOINT"), last("CMD")],
      ["node", '["hermes"]', '["cluster", "runner"]']
    )
    assert.match(last("HEALTHCHECK"), /CMD hermes cluster status "\$\(hostname\)"$/)
    assert.deepStrictEqual(
      lines.filter((line) => line.startsWith("ADD ")),
      []
    )
    assert.isAbove(
      lines.findIndex((line) => line.startsWith("USER ")),
      lines.findLastIndex((line) => line.startsWith("RUN "))
    )
    const { bin, name } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
      readonly bin: Record<string, string>
      readonly name: string
    }
    assert.isTrue(Object.hasOwn(bin, "hermes"))
    assert.include(last("COPY"), `${name}-*.tgz`)
  })

  it.live("commands of the files exist", () =>
    Effect.gen(function* () {
      const { hermes } = yield* machine
      const texts = [
        ...["Dockerfile", "compose.yaml", "kubernetes.yaml"].map(textOf),
        readFileSync(join(root, "scratchpad/guides/cluster.md"), "utf8")
      ]
      const commands = Array.from(new Set([...texts.flatMap(commandsIn), "cluster runner"]))
      assert.isAtLeast(commands.length, 5)
      const { stdout } = yield* hermes(["cluster", "--help"])
      for (const command of commands.filter((command) => command.startsWith("cluster ")))
        assert.match(stdout, new RegExp(`^ +${command.slice(8)}\\b`, "m"), command)
      assert.deepStrictEqual(
        commands.filter((command) => !command.startsWith("cluster ")),
        ["batch run"]
      )
    })
  )
})
