// Which writes need an approval for their place.
import { assert, describe, it } from "@effect/vitest"
import * as Boundary from "../../../src/tools/fence/Boundary.ts"

const places: Boundary.Surroundings = {
  cwd: "/home/u/project/src",
  roots: ["/home/u/project"],
  temporary: ["/tmp", "/var/tmp"],
  home: "/home/u",
  agentHomes: ["/srv/agent", "/home/u/.hermes"]
}

describe("Boundary", () => {
  it("judges a path: the home of the agent before the tree, what runs later wherever it is, then roots", () => {
    const reason = (path: string, more: Partial<Boundary.Surroundings> = {}) =>
      Boundary.judge(path, { ...places, ...more })
    assert.match(reason("/home/u/.hermes/plugins/a/index.js", { roots: ["/home/u"] }) ?? "", /home directory of hermes/)
    for (const path of [
      "/home/u/.bashrc",
      "/home/u/.gitconfig",
      "/home/u/.local/bin/ls",
      "/home/u/.config/autostart/a.desktop",
      "/home/u/project/.git/hooks/pre-commit",
      "/home/u/project/.git/config",
      "/home/u/project/.husky/pre-push",
      "/home/u/project/.vscode/tasks.json",
      "/home/u/project/.envrc",
      "/tmp/a/.git/hooks/x"
    ]) {
      assert.match(reason(path, { roots: ["/home/u"] }) ?? "", /^change of /, path)
    }
    assert.isUndefined(reason("/home/u/project/package.json"))
    assert.isUndefined(reason("/home/u/project/.github/workflows/ci.yml"))
    assert.strictEqual(reason("/home/u/project2/a"), "write outside of the working tree")
    assert.strictEqual(reason("/home/u/project/a", { inherited: ["/srv/other"] }), "write outside of the working tree")
    assert.isUndefined(reason("/home/u/project/a", { inherited: ["/home/u"] }))
  })
})
