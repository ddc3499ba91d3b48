/** Rules for the files of every environment, and for snapshots of its working trees. */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as PlatformError from "effect/PlatformError"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as TreeSnapshot from "../../places/TreeSnapshot.ts"
import * as ChildProcesses from "../../base/platform/ChildProcesses.ts"
import * as Check from "./Check.ts"
import type * as Conformance from "./Conformance.ts"
import { makeDirectoryRule, joinBytes, type Subject, readFailureTag, type Tools } from "./EnvironmentSubject.ts"

type Named = readonly [name: string, body: (tools: Tools) => Effect.Effect<void, unknown, Scope.Scope>]

const fileRules: ReadonlyArray<Named> = [
  [
    "are those that commands see, as bytes",
    Effect.fnUntraced(function* ({ at, files, finished }) {
      const bytes = Uint8Array.from({ length: 1024 }, (_, index) => index % 256)
      yield* files.writeFile(at("bytes"), bytes)
      Check.equals(Array.from(yield* files.readFile(at("bytes"))), Array.from(bytes))
      Check.equals((yield* finished("cksum < bytes")).out, (yield* finished("cat bytes | cksum")).out)
      yield* finished("printf 'from a command' > said")
      Check.equals(yield* files.readFileString(at("said")), "from a command")
      yield* files.writeFileString(at("empty"), "")
      Check.equals((yield* files.readFile(at("empty"))).length, 0)
    })
  ],
  [
    "are long, and read in pieces and from the middle",
    Effect.fnUntraced(function* ({ at, files }) {
      const bytes = new Uint8Array(1_500_000).map((_, index) => index * 7 + (index >> 10))
      yield* files.writeFile(at("long"), bytes)
      Check.equals(new Uint8Array(yield* files.readFile(at("long"))), bytes)
      const pieces = yield* Stream.runCollect(files.stream(at("long"), { chunkSize: 50_000 }))
      Check.equals(joinBytes(pieces), bytes)
      const middle = yield* Stream.runCollect(files.stream(at("long"), { offset: 700_001, bytesToRead: 9 }))
      Check.equals(Array.from(joinBytes(middle)), Array.from(bytes.subarray(700_001, 700_010)))
    })
  ],
  [
    "are told by name, kind, size, mode and time",
    Effect.fnUntraced(function* ({ at, files, finished }) {
      yield* finished(
        "mkdir -p 'dir with space/sub'; printf 12345 > 'dir with space/f'; chmod 640 'dir with space/f'; " +
          "ln -s f 'dir with space/link'; printf x > 'dir with space/.hidden'; " +
          "printf y > 'dir with space/new\nline'"
      )
      const list = yield* files.readDirectoryEntries(at("dir with space"))
      Check.equals(list.map(({ name, type }) => `${name} ${type}`).toSorted(), [
        ".hidden File",
        "f File",
        "link SymbolicLink",
        "new\nline File",
        "sub Directory"
      ])
      const info = yield* files.stat(at("dir with space/f"))
      Check.equals([info.type, Number(info.size), info.mode & 0o777], ["File", 5, 0o640])
      Check.holds(Math.abs(Option.getOrThrow(info.mtime).getTime() - (yield* Clock.currentTimeMillis)) < 3_600_000)
      Check.equals((yield* files.lstat(at("dir with space/link"))).type, "SymbolicLink")
      Check.equals((yield* files.stat(at("dir with space/link"))).type, "File")
      Check.equals((yield* files.readDirectory(at("."), { recursive: true })).toSorted().slice(0, 2), [
        "dir with space",
        "dir with space/.hidden"
      ])
    })
  ],
  [
    "are made, renamed, linked, copied and removed",
    Effect.fnUntraced(function* ({ at, files }) {
      yield* files.makeDirectory(at("a/b/c"), { recursive: true })
      yield* files.writeFileString(at("a/one"), "1", { mode: 0o600 })
      Check.equals((yield* files.stat(at("a/one"))).mode & 0o777, 0o600)
      yield* files.writeFileString(at("a/two"), "2")
      yield* files.rename(at("a/one"), at("a/two"))
      Check.equals(yield* files.readFileString(at("a/two")), "1")
      yield* files.symlink("two", at("a/link"))
      Check.equals(
        [yield* files.readLink(at("a/link")), yield* files.realPath(at("a/../a/link"))],
        ["two", at("a/two")]
      )
      yield* files.copyFile(at("a/two"), at("a/copy"))
      yield* files.copy(at("a"), at("whole"))
      Check.equals(yield* files.readFileString(at("whole/copy")), "1")
      yield* files.writeFileString(at("a/two"), "+more", { flag: "a" })
      Check.equals(yield* files.readFileString(at("a/link")), "1+more")
      yield* files.truncate(at("a/two"), 1)
      Check.equals(yield* files.readFileString(at("a/two")), "1")
      yield* files.chmod(at("a/two"), 0o755)
      Check.equals((yield* files.stat(at("a/two"))).mode & 0o777, 0o755)
      yield* files.remove(at("a"), { recursive: true })
      Check.holds(!(yield* files.exists(at("a"))))
      yield* files.remove(at("a"), { recursive: true, force: true })
    })
  ],
  [
    "are written through an open file, and made once only",
    Effect.fnUntraced(function* ({ at, files }) {
      yield* Effect.scoped(
        Effect.gen(function* () {
          const file = yield* files.open(at("draft"), { flag: "wx" })
          yield* file.writeAll(new TextEncoder().encode("one "))
          yield* file.writeAll(new TextEncoder().encode("two"))
          yield* file.sync
        })
      )
      Check.equals(yield* files.readFileString(at("draft")), "one two")
      Check.equals(yield* readFailureTag(Effect.scoped(files.open(at("draft"), { flag: "wx" }))), "AlreadyExists")
      Check.equals(yield* readFailureTag(files.writeFileString(at("draft"), "x", { flag: "wx" })), "AlreadyExists")
    })
  ],
  [
    "fail as files of this machine do",
    Effect.fnUntraced(function* ({ at, files }) {
      yield* files.writeFileString(at("file"), "x")
      const missing = [
        files.readFile(at("none")),
        files.stat(at("none")),
        files.realPath(at("none")),
        files.readDirectory(at("none")),
        files.remove(at("none")),
        files.rename(at("none"), at("x")),
        Effect.scoped(files.open(at("none"))),
        files.writeFileString(at("none/file"), "x"),
        files.makeDirectory(at("none/dir"))
      ]
      Check.equals(
        [
          ...new Set(
            yield* Effect.forEach(missing, (effect) =>
              readFailureTag(Effect.asVoid<unknown, PlatformError.PlatformError, never>(effect))
            )
          )
        ],
        ["NotFound"]
      )
      yield* files.makeDirectory(at("dir"))
      Check.equals(yield* readFailureTag(files.makeDirectory(at("dir"))), "AlreadyExists")
      Check.equals(yield* readFailureTag(files.readFile(at("dir"))), "BadResource")
      Check.equals(yield* readFailureTag(files.stat(at("file/below"))), "BadResource")
    })
  ],
  [
    "tell of a change below a directory, or say that they cannot be watched",
    Effect.fnUntraced(function* ({ at, files }) {
      yield* files.makeDirectory(at("watched"))
      // A watcher takes time to start, so the change is repeated until it is observed.
      const changing = Effect.repeat(
        Effect.andThen(files.writeFileString(at("watched/new"), "x"), files.remove(at("watched/new"))),
        Schedule.spaced("50 millis")
      )
      const seen = yield* Effect.result(
        Effect.raceFirst(Stream.runHead(files.watch(at("watched"))), Effect.andThen(changing, Effect.never))
      )
      if (seen._tag === "Failure") Check.matches(seen.failure.reason.description ?? "", /cannot be watched$/)
      else
        Check.holds(Option.isSome(seen.success) && seen.success.value.path.includes("new"), "the change names its file")
    })
  ],
  [
    "may be temporary",
    Effect.fnUntraced(function* ({ files, finished }) {
      const path = yield* Effect.scoped(
        Effect.gen(function* () {
          const directory = yield* files.makeTempDirectoryScoped({ prefix: "suite-" })
          Check.matches(directory, /\/suite-[^/]+$/)
          Check.equals((yield* finished(`[ -d ${directory} ] && echo there`)).out, "there\n")
          return directory
        })
      )
      Check.holds(!(yield* files.exists(path)))
    })
  ]
]

const snapshotRules: ReadonlyArray<Named> = [
  [
    "tell which files a command made, changed and removed, with what was in them",
    Effect.fnUntraced(function* ({ at, directory, environment, files, finished }) {
      const here = yield* Layer.build(ChildProcesses.layer)
      const storage = yield* Context.get(here, FileSystem.FileSystem).makeTempDirectoryScoped({
        prefix: "hermes-trees-"
      })
      const { take } = yield* TreeSnapshot.make(environment, {
        directory: storage,
        apart: [],
        home: undefined,
        isHidden: (path) => path.endsWith(".env")
      }).pipe(Effect.provideContext(here))
      yield* files.writeFileString(at("changed"), "one\n")
      yield* files.writeFileString(at("removed"), "gone\n")
      yield* files.writeFileString(at("same"), "same\n")
      const before = yield* take(directory)
      yield* finished(
        "echo two > changed; rm removed; mkdir sub; printf 'a b' > 'sub/new file'; ln -s same link; " +
          "echo KEY > .env; chmod +x same; touch -d @0 same"
      )
      const { changes, unseen } = yield* before.since
      const decodeText = (content: Uint8Array | undefined) =>
        content === undefined ? undefined : new TextDecoder().decode(content)
      const found = changes
        .map(({ after, before, path }) => [
          path.slice(path.indexOf(`${directory.split("/").at(-1)}/`)),
          decodeText(before?.content),
          decodeText(after?.content)
        ])
        .toSorted()
      const own = directory.split("/").at(-1)
      if (changes.length === 0) return Check.matches(unseen.join(), /has no git/)
      Check.equals(found, [
        [`${own}/changed`, "one\n", "two\n"],
        [`${own}/link`, undefined, "same"],
        [`${own}/removed`, "gone\n", undefined],
        [`${own}/same`, "same\n", "same\n"],
        [`${own}/sub/new file`, undefined, "a b"]
      ])
      Check.equals([(yield* (yield* take(directory)).since).changes, unseen], [[], []])
    })
  ]
]

/** Rules for files. */
export const files: ReadonlyArray<Conformance.Rule<Subject>> = fileRules.map(([name, body]) =>
  makeDirectoryRule("files", name, body)
)

/** Rules for snapshots. */
export const snapshots: ReadonlyArray<Conformance.Rule<Subject>> = snapshotRules.map(([name, body]) =>
  makeDirectoryRule("snapshots", name, body)
)
