/** Calls work until it succeeds, so many times at most, and waits in between. Fails as the last call did. */
export const retry = async (times, work, wait = async () => {}) => {
  for (let attempt = 0;; attempt++) {
    try {
      return await work(attempt)
    } catch (error) {
      if (attempt + 1 >= times) throw error
      await wait(attempt)
    }
  }
}
