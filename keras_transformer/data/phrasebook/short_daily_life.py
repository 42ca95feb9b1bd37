"""Short carriers about daily life: what those of `daily_life.py` begin with."""

TEXT = """\
The blue jacket costs {euros}.
Die blaue Jacke kostet {euros}.
La veste bleue coûte {euros}.

Until {day}, you save {percent} on all orders.
Bis zum {day} sparen Sie {percent} bei allen Bestellungen.
Jusqu'au {day}, vous économisez {percent} sur toutes les commandes.

Order {order}: delivery on {medium}.
Bestellung {order}: Lieferung am {medium}.
Commande {order} : livraison le {medium}.

I would like {grams} of cheese.
Ich hätte gern {grams} Käse.
Je voudrais {grams} de fromage.

For the cake, you need {grams} of flour.
Für den Kuchen braucht man {grams} Mehl.
Pour le gâteau, il faut {grams} de farine.

The truck carries {words_f} boxes.
Der Lastwagen transportiert {words_f} Kisten.
Le camion transporte {words_f} caisses.

In {month}, the shop sold {words} books.
Im {month} verkaufte der Laden {words} Bücher.
En {month}, la boutique a vendu {words} livres.

The bill comes to {euros}.
Die Rechnung beträgt {euros}.
L'addition s'élève à {euros}.

The shelf is {centimeters} high.
Das Regal ist {centimeters} hoch.
L'étagère mesure {centimeters} de haut.

The supermarket is {meters} from here.
Der Supermarkt ist {meters} von hier entfernt.
Le supermarché est à {meters} d'ici.

This phone costs {amount}.
Dieses Telefon kostet {amount}.
Ce téléphone coûte {amount}.

The warranty lasts {months}.
Die Garantie gilt {months}.
La garantie dure {months}.

Receipt {order}: {price}.
Quittung {order}: {price}.
Reçu {order} : {price}.

Parcel {order}: {kg}.
Paket {order}: {kg}.
Colis {order} : {kg}.

My number is {phone}.
Meine Nummer ist {phone}.
Mon numéro est le {phone}.

The menu costs {euros}.
Das Menü kostet {euros}.
Le menu coûte {euros}.

The meeting takes place in room {room}.
Die Besprechung findet in Raum {room} statt.
La réunion a lieu dans la salle {room}.

Please call Ms. Keller back before {time}.
Bitte rufen Sie Frau Keller vor {time} Uhr zurück.
Veuillez rappeler Mme Keller avant {time}.

Invoice {order} is due on {date}.
Die Rechnung {order} ist am {date} fällig.
La facture {order} est à régler le {date}.

The share of online orders is {percent}.
Der Anteil der Online-Bestellungen beträgt {percent}.
La part des commandes en ligne est de {percent}.

The company has {number} employees.
Das Unternehmen hat {number} Beschäftigte.
L'entreprise compte {number} salariés.

Please transfer {price} before {date}.
Bitte überweisen Sie {price} vor dem {date}.
Veuillez virer {price} avant le {date}.

The interest rate is {rate} per year.
Der Zinssatz beträgt {rate} pro Jahr.
Le taux d'intérêt est de {rate} par an.

The conference takes place from {day1} to {day2}.
Die Konferenz findet vom {day1} bis zum {day2} statt.
La conférence a lieu du {day1} au {day2}.

The file has a size of {data}.
Die Datei hat eine Größe von {data}.
Le fichier a une taille de {data}.

The office costs {amount} per month.
Das Büro kostet {amount} pro Monat.
Le bureau coûte {amount} par mois.

My extension is {extension}.
Meine Durchwahl ist {extension}.
Mon poste est le {extension}.

We need {words} copies of the report.
Wir brauchen {words} Exemplare des Berichts.
Il nous faut {words} exemplaires du rapport.

Contract {order} was signed on {date}.
Der Vertrag {order} wurde am {date} unterschrieben.
Le contrat {order} a été signé le {date}.

Our office is open from {morning} to {evening}.
Unser Büro ist von {morning} bis {evening} Uhr geöffnet.
Notre bureau est ouvert de {morning} à {evening}.

Deadline: {full}, {time}.
Abgabefrist: {full}, {time} Uhr.
Date limite : {full}, {time}.

In {month}, the group had sales of {billions} euros.
Im {month} setzte der Konzern {billions} Euro um.
En {month}, le groupe a réalisé un chiffre d'affaires de {billions} d'euros.

The insurance costs {price} a month.
Die Versicherung kostet {price} im Monat.
L'assurance coûte {price} par mois.

Please pay the sum of {thousands} euros.
Bitte zahlen Sie den Betrag von {thousands} Euro.
Veuillez payer la somme de {thousands} euros.

Your doctor's appointment is on {appointment}.
Ihr Arzttermin ist am {appointment}.
Votre rendez-vous chez le médecin aura lieu {appointment}.

Next appointment: {full}, {time}.
Nächster Termin: {full}, {time} Uhr.
Prochain rendez-vous : {full}, {time}.

Take {milliliters} of syrup at {time}.
Nehmen Sie {milliliters} Sirup um {time} Uhr.
Prenez {milliliters} de sirop à {time}.

The patient is {years} old.
Der Patient ist {years} alt.
Le patient a {years}.

I had a fever of {fever} at {time}.
Ich hatte um {time} Uhr {fever} Fieber.
J'avais {fever} de fièvre à {time}.

The treatment lasts {weeks}.
Die Behandlung dauert {weeks}.
Le traitement dure {weeks}.

In an emergency, call {phone}.
Rufen Sie im Notfall {phone} an.
En cas d'urgence, appelez le {phone}.

The twins were born on {date}.
Die Zwillinge wurden am {date} geboren.
Les jumeaux sont nés le {date}.

The pharmacy is open until {evening}.
Die Apotheke ist bis {evening} Uhr geöffnet.
La pharmacie est ouverte jusqu'à {evening}.

She ran {km} in {duration}.
Sie lief {km} in {duration}.
Elle a couru {km} en {duration}.

The patients recover within {weeks}.
Die Patienten genesen innerhalb von {weeks}.
Les patients guérissent en {weeks}.

The film starts at {evening} in hall {small}.
Der Film beginnt um {evening} Uhr in Saal {small}.
Le film commence à {evening} dans la salle {small}.

The festival begins on {date}.
Das Festival beginnt am {date}.
Le festival commence le {date}.

The {ordinal} concert takes place at {evening}.
Das {ordinal} Konzert findet um {evening} Uhr statt.
Le {ordinal} concert aura lieu à {evening}.

Tickets cost {euros}.
Eintrittskarten kosten {euros}.
Les billets coûtent {euros}.

So far, {words} tickets have been sold.
Bisher wurden {words} Karten verkauft.
Jusqu'ici, {words} billets ont été vendus.

In {year}, {thousands} runners took part in the race.
Im Jahr {year} nahmen {thousands} Läufer an dem Rennen teil.
En {year}, {thousands} coureurs ont participé à la course.

The language courses start on {date}.
Die Sprachkurse beginnen am {date}.
Les cours de langue commencent le {date}.

Our library owns {thousands} books.
Unsere Bibliothek besitzt {thousands} Bücher.
Notre bibliothèque possède {thousands} livres.

The bakery was founded in {year}.
Die Bäckerei wurde {year} gegründet.
La boulangerie a été fondée en {year}.

The car reaches {speed}.
Das Auto erreicht {speed}.
La voiture atteint {speed}.

Last year, the apartment used {energy} of electricity.
Im letzten Jahr verbrauchte die Wohnung {energy} Strom.
L'an dernier, l'appartement a consommé {energy} d'électricité.

The population fell by {percent}.
Die Bevölkerungszahl sank um {percent}.
La population a baissé de {percent}.

The school has {words} students.
Die Schule hat {words} Schüler.
L'école compte {words} élèves.

The exam begins on {appointment}.
Die Prüfung beginnt am {appointment}.
L'examen commence {appointment}.

Open day: {full}.
Tag der offenen Tür: {full}.
Journée portes ouvertes : {full}.

Please reply before {day}.
Bitte antworten Sie vor dem {day}.
Merci de répondre avant le {day}.

He has lived at number {house} since {month}.
Er wohnt seit {month} in Hausnummer {house}.
Il habite depuis {month} au numéro {house}.

The farm has {words_f} cows.
Der Hof hat {words_f} Kühe.
La ferme possède {words_f} vaches.

The hall holds {thousands} spectators.
Die Halle fasst {thousands} Zuschauer.
La salle peut accueillir {thousands} spectateurs.

Volunteers planted {thousands} trees.
Freiwillige pflanzten {thousands} Bäume.
Des bénévoles ont planté {thousands} arbres.

The book has {words_f} pages.
Das Buch hat {words_f} Seiten.
Le livre compte {words_f} pages.

In the vote, {words} members were for the plan.
Bei der Abstimmung waren {words} Mitglieder für den Plan.
Lors du vote, {words} membres étaient pour le projet.

She won with {words} points.
Sie gewann mit {words} Punkten.
Elle a gagné avec {words} points."""
