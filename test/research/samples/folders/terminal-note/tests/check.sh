test "$(tr -d ' \n' < /app/count.txt)" = 3
