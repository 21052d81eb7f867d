from reprise_tt import main

main()
